SELECT dc_create('clicks');
