\set key random(1, 100000)
SELECT :key::text;
