SELECT dc_create('likes');
CREATE SEQUENCE applied;
