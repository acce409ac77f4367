\set member random(1, 100000)
SELECT dc_beat('chat', '1', :member::text);
