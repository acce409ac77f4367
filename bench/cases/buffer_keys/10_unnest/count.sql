SELECT (dc_sum('views') / 16)::bigint;
