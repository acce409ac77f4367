SELECT * FROM dc_trending('likes', 10);
