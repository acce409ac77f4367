SELECT dc_create_stock('seats');
