\set customer random(1, 100000)
BEGIN;
INSERT INTO orders (customer, state, amount) VALUES (:customer, 'new', 12.50) RETURNING id \gset
INSERT INTO outbox (aggregatetype, aggregateid, type, payload) SELECT 'orders', :id::text, 'insert', jsonb_build_object('op', 'insert', 'new', to_jsonb(o), 'old', NULL, 'table', 'public.orders', 'at', clock_timestamp()) FROM orders o WHERE id = :id;
COMMIT;
