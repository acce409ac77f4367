-- The processor time of this session in microseconds
CREATE FUNCTION cpu_us() RETURNS float8 LANGUAGE sql VOLATILE AS
	$$SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1000$$;
SELECT dc_region_init(current_setting('cluster_name'));
SELECT dc_create('likes');
SELECT dc_replicate('likes');
