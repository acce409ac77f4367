SELECT dc_stock_create('seats');
