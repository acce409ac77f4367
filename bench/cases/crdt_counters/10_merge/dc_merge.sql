SELECT count(dc_merge(a, b)) FROM pairs_dc;
