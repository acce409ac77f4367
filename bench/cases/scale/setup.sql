SELECT dc_create('c');
