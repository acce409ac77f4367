CREATE TABLE event (event_id text PRIMARY KEY);
