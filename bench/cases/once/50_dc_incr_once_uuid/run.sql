SELECT dc_incr_once('likes', 'post:42', 1, gen_random_uuid()::text);
