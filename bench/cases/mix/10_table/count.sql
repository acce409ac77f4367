SELECT sum(views) FROM posts;
