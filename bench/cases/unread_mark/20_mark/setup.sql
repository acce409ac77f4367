SELECT dc_create('messages');
SELECT dc_incr('messages', 'c' || i, 10000000000000000) FROM generate_series(1, 50) AS i;
SELECT dc_compact('messages');
SELECT dc_unread_create('seen', 'messages');
INSERT INTO seen SELECT m::text, 'c' || c, 10 FROM generate_series(1, 2000) AS m, generate_series(1, 50) AS c;
