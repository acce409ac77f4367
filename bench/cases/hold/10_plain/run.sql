BEGIN;
UPDATE seats SET n = n - 1 WHERE id = 42 AND n >= 1;
INSERT INTO holds (seat, qty, expires_at) VALUES (42, 1, now() + interval '10 minutes') RETURNING id \gset
COMMIT;
UPDATE holds SET state = 'confirmed' WHERE id = :id AND state = 'open' AND expires_at > now();
