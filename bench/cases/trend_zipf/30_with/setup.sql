SELECT dc_create('likes', trend => '1 hour');
-- as with the UPDATE, each key is there before the run
SELECT count(dc_incr('likes', k)) FROM generate_series(1, 10000) AS k;
SELECT dc_compact('likes');
