SELECT dc_hll_count(dc_hll_union_agg(h)) FROM sparse_dc;
