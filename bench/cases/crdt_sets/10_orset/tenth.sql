SELECT variable_orset(2000) = 2000;
