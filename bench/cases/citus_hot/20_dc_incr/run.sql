SELECT dc_incr('likes', 'hot');
