\set k random(1, 1000)
SELECT dc_get('clicks', :k);
