SELECT dc_limit_create('api', 'log', 1000, '1 s');
