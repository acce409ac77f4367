SELECT dc_create('views');
SELECT dc_incr('views', 'post:42');
