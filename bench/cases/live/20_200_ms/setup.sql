SET client_min_messages = warning;
DROP ROLE IF EXISTS web;
\i examples/live/schema.sql
SELECT dc_limit_alter('clicks', rate => 100000, burst => 100000);
