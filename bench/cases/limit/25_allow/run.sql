SELECT dc_allow('api', 'key');
