SELECT dc_create('views');
SELECT count(dc_incr('views', k)) FROM generate_series(1, 1000) AS k;
