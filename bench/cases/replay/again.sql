\set n :n + 1
\set place permute(:n % :each * 16 + :client_id, :each * 16, :n / :each)
\set id :place / :each * 1000000000 + :place % :each
SELECT dc_incr_once('likes', 'post:42', 1, :id);
