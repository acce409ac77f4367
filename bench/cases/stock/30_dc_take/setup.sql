SELECT dc_stock_create('seats');
SELECT dc_restock('seats', 42, 1000000000);
