SELECT count(*) FROM op;
