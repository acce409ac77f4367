SELECT allowed FROM dc_limit('api', 'key');
