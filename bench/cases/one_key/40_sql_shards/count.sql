SELECT sum(likes) FROM likes_by_hand WHERE key = 'post:42';
