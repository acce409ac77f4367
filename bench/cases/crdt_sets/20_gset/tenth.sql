SELECT variable_gset(2000) = 2000;
