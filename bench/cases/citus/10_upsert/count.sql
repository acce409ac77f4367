SELECT coalesce(sum(likes), 0) FROM posts;
