INSERT INTO op VALUES (gen_random_uuid()::text) ON CONFLICT DO NOTHING;
