SELECT dc_get('messages', 'c1');
