SELECT * FROM dc_top('likes', 10);
