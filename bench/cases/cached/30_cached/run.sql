SELECT dc_get('views', 'post:42', '1 second');
