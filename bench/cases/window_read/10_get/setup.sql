SELECT dc_create('clicks');
SELECT count(dc_incr('clicks', k)) FROM generate_series(1, 1000) AS k;
SELECT dc_compact('clicks');
