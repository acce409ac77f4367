SELECT dc_get('likes', 'post:42');
