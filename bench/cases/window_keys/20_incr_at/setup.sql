SELECT dc_window_create('clicks', '1 minute', '2 hours');
