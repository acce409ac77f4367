SELECT count(a) FROM pairs_dc;
