SELECT count(*) FROM outbox;
