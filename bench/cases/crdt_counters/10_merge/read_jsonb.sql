SELECT count(a) FROM pairs_jsonb;
