-- Fills the session's caches: what is timed takes a fortieth of a second
\o /dev/null
SELECT dc_hll_count(dc_hll_union_agg(h)) FROM (SELECT h FROM sparse_dc LIMIT 1000) AS few;
SELECT hll_cardinality(hll_union_agg(h)) FROM (SELECT h FROM sparse_hll LIMIT 1000) AS few;
\o
