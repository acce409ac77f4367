SELECT variable_gset(20000) = 20000;
