SELECT count(a || b) FROM pairs_jsonb;
