INSERT INTO likes (post_id, fan) VALUES (42, 7);
