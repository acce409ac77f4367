\set member random(1, 100000)
SELECT :member::text;
