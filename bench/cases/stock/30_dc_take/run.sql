SELECT dc_take('seats', 42);
