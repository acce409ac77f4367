SELECT count(h) FROM (SELECT dc_hll_agg(x) AS h FROM groups_50 GROUP BY g) AS s;
