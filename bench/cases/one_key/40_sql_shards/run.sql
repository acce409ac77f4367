\set s random(0, 15)
INSERT INTO likes_by_hand AS l VALUES ('post:42', :s, 1)
    ON CONFLICT (key, shard) DO UPDATE SET likes = l.likes + 1;
