\set member random(1, 2000)
SELECT :member::text;
