SELECT dc_create('views', mode => 'buffered', flush_interval => '1 hour');
