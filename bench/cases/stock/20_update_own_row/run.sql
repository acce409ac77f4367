UPDATE seats SET n = n - 1 WHERE id = :client_id AND n >= 1;
