SELECT dc_hll_count(dc_hll_union_agg(h)) FROM dense_dc;
