SELECT CASE WHEN EXISTS (SELECT FROM balance
            FULL JOIN (SELECT key, sum(amount) FROM entry GROUP BY key) e USING (key)
        WHERE value IS DISTINCT FROM coalesce(sum, 0)) THEN -1
    ELSE (SELECT count(*) / 2 FROM entry WHERE op_id <> 'opening') END;
