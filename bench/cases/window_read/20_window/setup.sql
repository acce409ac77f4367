SELECT dc_window_create('clicks', '1 minute', '2 hours');
SELECT count(dc_incr_at('clicks', k, 1, now() - make_interval(mins => m)))
FROM generate_series(1, 1000) AS k, generate_series(0, 60) AS m;
CALL dc_maintain();
