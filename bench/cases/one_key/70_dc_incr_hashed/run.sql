SELECT dc_incr_hashed('likes', 'post:42', :client_id);
