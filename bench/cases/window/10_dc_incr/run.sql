SELECT dc_incr('clicks', 'page 7');
