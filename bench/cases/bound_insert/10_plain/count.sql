SELECT count(*) FROM likes;
