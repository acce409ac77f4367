SELECT dc_incr('views', 'post:42');
