SELECT * FROM dc_limit('api', 'key');
