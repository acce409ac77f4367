-- Needs a preloaded server, with the extension in the database. A wrong value ends it with an error.
SELECT dc_create('views', mode => 'buffered');
SELECT dc_incr('views', 'page:1', 42);
SELECT 1 / (dc_get('views', 'page:1') = 42)::int AS right_value;
