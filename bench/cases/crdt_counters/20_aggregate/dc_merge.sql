SELECT dc_merge_agg(c)::jsonb FROM counters_dc;
