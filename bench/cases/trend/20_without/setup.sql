SELECT dc_create('likes');
