SELECT likes FROM posts WHERE id = 42;
