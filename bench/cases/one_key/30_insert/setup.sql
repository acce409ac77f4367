CREATE TABLE likes (post_id int NOT NULL);
