SELECT dc_get('clicks', 'page 7');
