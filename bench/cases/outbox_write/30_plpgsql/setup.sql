CREATE TABLE orders (id bigserial PRIMARY KEY, customer bigint NOT NULL, state text NOT NULL, amount numeric NOT NULL, at timestamptz NOT NULL DEFAULT now());
CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text NOT NULL, aggregateid text, type text NOT NULL, payload jsonb, created_at timestamptz NOT NULL DEFAULT now());
CREATE FUNCTION to_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('orders', NEW.id::text, 'insert', jsonb_build_object('op', 'insert', 'new', to_jsonb(NEW), 'old', NULL, 'table', 'public.orders', 'at', clock_timestamp()));
	RETURN NULL;
END $$;
CREATE TRIGGER to_outbox AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION to_outbox();
