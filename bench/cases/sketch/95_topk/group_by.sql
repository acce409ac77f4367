SELECT max(n) FROM (SELECT word, count(*) AS n FROM words GROUP BY word ORDER BY n DESC LIMIT 100) AS s;
