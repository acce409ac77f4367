SELECT dc_create('likes');
INSERT INTO likes (key) SELECT 'post:' || k FROM generate_series(1, 100000) AS k ORDER BY hashint4(k);
