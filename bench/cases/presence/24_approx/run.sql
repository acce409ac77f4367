\set member random(1, 100000)
SELECT dc_beat('live', '1', :member::text);
