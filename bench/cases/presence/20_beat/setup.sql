SELECT dc_presence_create('chat', '1 day'); SELECT count(dc_enter('chat', '1', i::text)) FROM generate_series(1, 100000) AS i;
