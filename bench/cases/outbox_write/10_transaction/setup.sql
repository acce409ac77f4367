CREATE TABLE orders (id bigserial PRIMARY KEY, customer bigint NOT NULL, state text NOT NULL, amount numeric NOT NULL, at timestamptz NOT NULL DEFAULT now());
CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text NOT NULL, aggregateid text, type text NOT NULL, payload jsonb, created_at timestamptz NOT NULL DEFAULT now());
