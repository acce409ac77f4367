SELECT variable_dc(20000);
