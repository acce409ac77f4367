UPDATE posts SET likes = likes + 1, updated_at = now() WHERE key = 'hot';
