\set k random(1, 1000)
SELECT * FROM dc_buckets('clicks', :k, now() - interval '59 minutes', now());
