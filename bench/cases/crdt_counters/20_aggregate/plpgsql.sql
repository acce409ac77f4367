SELECT merge_plpgsql_agg(c)::text FROM counters_jsonb;
