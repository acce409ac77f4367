SELECT dc_incr('likes', 'post:42');
