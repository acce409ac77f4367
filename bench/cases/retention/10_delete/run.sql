DELETE FROM clicks;
