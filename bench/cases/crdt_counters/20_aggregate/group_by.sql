SELECT jsonb_object_agg(key, amount)::text FROM (SELECT key, max(value::bigint) AS amount FROM counters_jsonb, jsonb_each_text(c) GROUP BY key) AS nodes;
