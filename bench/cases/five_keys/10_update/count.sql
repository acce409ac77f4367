SELECT trim_scale(sum(likes) / 5) FROM posts;
