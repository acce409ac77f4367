SELECT count(h) FROM (SELECT hll_add_agg(hll_hash_bigint(x), 14) AS h FROM groups_50 GROUP BY g) AS s;
