UPDATE posts SET likes = likes + 1 WHERE id = :client_id;
