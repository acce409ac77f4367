SELECT dc_distinct_create('visitors');
SELECT count(dc_add('visitors', 'page 7', i)) FROM generate_series(1, 1000) AS i;
CALL dc_maintain();
