SELECT dc_region_init(current_setting('cluster_name'));
SELECT dc_create('likes');
SELECT dc_replicate('likes');
