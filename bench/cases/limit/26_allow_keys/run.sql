\set key random(1, 100000)
SELECT dc_allow('api', :key::text);
