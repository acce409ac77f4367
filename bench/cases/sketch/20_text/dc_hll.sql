SELECT dc_hll_count(dc_hll_agg(x)) FROM texts;
