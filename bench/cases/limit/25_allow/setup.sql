SELECT dc_limit_create('api', 'gcra', 1000000, '1 s', burst => 1000000);
