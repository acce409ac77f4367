\set k random(1, :keys)
SELECT dc_incr('views', :k);
