SELECT dc_window_rotate('clicks', now() + interval '7 hours');
