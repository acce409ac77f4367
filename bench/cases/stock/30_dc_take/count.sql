SELECT 1000000000 - dc_get('seats', 42);
