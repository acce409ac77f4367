SELECT dc_create('likes'), dc_create('seen');
