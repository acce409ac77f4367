SELECT dc_create('likes');
SELECT create_distributed_table('likes', 'key');
SELECT create_distributed_table('likes_shard', 'key', colocate_with => 'likes');
