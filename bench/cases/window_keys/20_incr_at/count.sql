SELECT sum(value) FROM clicks;
