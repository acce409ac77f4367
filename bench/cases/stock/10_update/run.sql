UPDATE seats SET n = n - 1 WHERE id = 42 AND n >= 1;
