SELECT dc_limit_create('api', 'gcra', 100, '1 hour', burst => 1000000);
SELECT count(*) FROM generate_series(1, 100000) AS i, dc_limit('api', i::text);
