TRUNCATE clicks;
