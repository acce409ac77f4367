SELECT dc_get('post_likes', 42);
