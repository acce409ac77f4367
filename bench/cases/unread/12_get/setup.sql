SELECT dc_create('messages');
SELECT dc_incr('messages', 'c' || i, 1000) FROM generate_series(1, 50) AS i;
SELECT dc_compact('messages');
