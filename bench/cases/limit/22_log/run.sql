SELECT (dc_limit('api', 'key')).allowed;
