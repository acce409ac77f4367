SELECT dc_create('views');
