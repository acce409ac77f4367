SELECT dc_create('views', mode => 'buffered');
SELECT count(dc_incr('views', k)) FROM generate_series(1, 1000) AS k;
