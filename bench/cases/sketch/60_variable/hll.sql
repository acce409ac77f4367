SELECT variable_hll(20000);
