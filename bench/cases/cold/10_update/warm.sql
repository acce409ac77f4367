-- the first change of a page after a checkpoint writes all of it to the WAL: not in the run
SELECT count(*) FROM (SELECT FROM posts FOR UPDATE) AS p;
