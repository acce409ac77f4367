\set key random(1, 100000)
SELECT (dc_limit('api', :key::text)).allowed;
