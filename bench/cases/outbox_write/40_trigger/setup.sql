CREATE TABLE orders (id bigserial PRIMARY KEY, customer bigint NOT NULL, state text NOT NULL, amount numeric NOT NULL, at timestamptz NOT NULL DEFAULT now());
SELECT dc_outbox_attach('orders');
