SELECT dc_create('views', mode => 'buffered', durability => 'sync');
