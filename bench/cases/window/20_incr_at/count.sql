SELECT value FROM dc_window('clicks', 'page 7', '1 hour');
