SELECT hll_cardinality(hll_add_agg(hll_hash_bigint(x), 14)) FROM numbers;
