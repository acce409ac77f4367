SELECT dc_create('likes', shard_by => 'random');
