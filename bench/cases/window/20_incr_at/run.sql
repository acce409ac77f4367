SELECT dc_incr_at('clicks', 'page 7');
