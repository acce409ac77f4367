SELECT count(*) FROM event;
