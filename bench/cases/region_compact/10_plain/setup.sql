-- The processor time of this session in microseconds
CREATE FUNCTION cpu_us() RETURNS float8 LANGUAGE sql VOLATILE AS
	$$SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1000$$;
SELECT dc_create('likes', totals => 'compacted');
