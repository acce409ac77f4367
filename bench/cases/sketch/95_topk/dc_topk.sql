SELECT max(estimate) FROM (SELECT dc_topk_agg(word, 100) AS t FROM words) AS s, dc_topk_list(t);
