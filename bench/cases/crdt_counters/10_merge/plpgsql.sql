SELECT count(merge_plpgsql(a, b)) FROM pairs_jsonb;
