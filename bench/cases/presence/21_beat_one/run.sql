SELECT dc_beat('chat', '1', '1');
