\set customer random(1, 100000)
INSERT INTO orders (customer, state, amount) VALUES (:customer, 'new', 12.50);
