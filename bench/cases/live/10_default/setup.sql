SET client_min_messages = warning;
-- the role is one of the server, and of the case before, too
DROP ROLE IF EXISTS web;
\i examples/live/schema.sql
SELECT dc_alter('likes', events => '1 s', notify => 'likes'), dc_limit_alter('clicks', rate => 100000, burst => 100000);
