SELECT n FROM used;
