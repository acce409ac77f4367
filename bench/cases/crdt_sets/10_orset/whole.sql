SELECT variable_orset(20000) = 20000;
