SELECT dc_create('likes', totals => 'compacted');
