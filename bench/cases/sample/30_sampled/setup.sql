SELECT dc_create('likes', sample => 64);
