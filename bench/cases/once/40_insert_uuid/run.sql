INSERT INTO event VALUES (gen_random_uuid()::text) ON CONFLICT DO NOTHING;
