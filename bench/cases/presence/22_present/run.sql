SELECT dc_present('chat', '1');
