SELECT likes FROM posts;
