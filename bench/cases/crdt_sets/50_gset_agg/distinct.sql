SELECT count(DISTINCT element) = 20000 FROM many, dc_values(g) AS element;
