SELECT dc_presence_create('live', '1 day', approx => true); SELECT count(dc_beat('live', '1', i::text)) FROM generate_series(1, 100000) AS i;
