CREATE TABLE events (page text NOT NULL);
