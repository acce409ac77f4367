\set k random(1, 1000)
SELECT * FROM dc_window('clicks', :k, '1 hour');
