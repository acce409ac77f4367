SELECT count(merge_sql(a, b)) FROM pairs_jsonb;
