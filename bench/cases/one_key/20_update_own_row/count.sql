SELECT sum(likes) FROM posts;
