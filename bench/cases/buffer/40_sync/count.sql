SELECT dc_get('views', 'post:42');
