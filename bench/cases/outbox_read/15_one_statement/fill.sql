SELECT count(dc_publish('orders', (i % 1000)::text, 'update', '{"op": "update", "id": 1, "amount": 12.50}')) FROM generate_series(1, :events) i;
