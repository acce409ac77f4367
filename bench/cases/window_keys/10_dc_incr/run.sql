\set k random(1, 100000)
SELECT dc_incr('clicks', :k);
