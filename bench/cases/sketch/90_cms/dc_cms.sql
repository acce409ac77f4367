SELECT dc_cms_estimate(dc_cms_agg(word, 0.001, 0.01), 'w1') FROM words;
