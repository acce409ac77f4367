SELECT dc_compact('post_likes');
