SELECT hll_cardinality(hll_add_agg(hll_hash_text(x), 14)) FROM texts;
