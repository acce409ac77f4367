SELECT merge_sql_agg(c)::text FROM counters_jsonb;
