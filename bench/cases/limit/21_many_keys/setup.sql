SELECT dc_limit_create('api', 'gcra', 100, '1 min', burst => 1000000);
