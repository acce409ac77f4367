SELECT dc_consumer_create('c', start => 'beginning');
