SELECT dc_create('likes', trend => '1 hour');
SELECT dc_incr_many('likes', array_agg('post:' || k), array_agg(100000 / k)) FROM generate_series(1, 100000) AS k;
SELECT dc_compact('likes');
