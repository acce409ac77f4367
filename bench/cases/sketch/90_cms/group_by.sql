SELECT max(n) FROM (SELECT count(*) AS n FROM words GROUP BY word) AS s;
