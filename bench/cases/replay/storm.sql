\set n :n + 1
\set id 100000000000 + (:n * 16 + :client_id) / 10
SELECT dc_incr_once('likes', 'post:42', 1, :id) AS applied \gset
\if :applied
SELECT nextval('applied');
\endif
