SELECT dc_incr('likes', 'new:' || nextval('new_key'));
