SELECT hll_cardinality(hll_union_agg(h)) FROM sparse_hll;
