SELECT hll_cardinality(hll_union_agg(h)) FROM dense_hll;
