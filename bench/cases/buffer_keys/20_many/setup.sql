SELECT dc_create('views', mode => 'buffered');
