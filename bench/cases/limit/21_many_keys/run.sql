\set key random(1, 100000)
SELECT allowed FROM dc_limit('api', :key::text);
