SELECT dc_create_stock('seats');
SELECT dc_restock('seats', 42, 1000000000);
