-- The database objects of the live page, created once by a superuser. The server then connects as web, which has no other rights.
CREATE EXTENSION IF NOT EXISTS dcounter;

-- how often each page was liked, and what is popular now; a changed value is told on the channel "likes"
SELECT dc_create('likes', trend => '1 hour');
SELECT dc_alter('likes', events => '200 ms', notify => 'likes');

-- the same by the minute, for the plot
SELECT dc_window_create('likes_by_minute', '1 minute', '1 day');

-- who is looking at a page
SELECT dc_presence_create('viewers', ttl => '30 s', events => '500 ms', notify => 'viewers');

-- an address may click 20 times at once, and 5 times a second after that
SELECT dc_limit_create('clicks', 'gcra', rate => 5, per => '1 s', burst => 20);

CREATE ROLE web LOGIN;
GRANT SELECT, INSERT, UPDATE ON likes, likes_by_minute TO web;
SELECT dc_presence_grant('viewers', 'web'), dc_limit_grant('clicks', 'web');

-- What the server does, a function each. Their JSON is text: a bigint keeps all of its digits.

-- a time: in UTC, to the microsecond, and of one length, so that the order of texts is that of times
CREATE FUNCTION live_time(t timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT to_char(t AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

-- the counter of a page, from the cache in shared memory: however many ask, the value is computed once in this time
CREATE FUNCTION live_counter(page text, staleness interval) RETURNS text LANGUAGE sql AS $$
    SELECT row_to_json(c) FROM (
        SELECT dc_get('likes', page, staleness) AS count, live_time(updated_at) AS updated_at FROM dc_total('likes', page)) AS c
$$;

-- pages as they are at this moment
CREATE FUNCTION live_pages(pages text[]) RETURNS TABLE (page text, count bigint, updated_at text, viewers bigint) LANGUAGE sql AS $$
    SELECT p, i.value, live_time(i.updated_at), dc_present('viewers', p) FROM unnest(pages) AS p, dc_info('likes', p) AS i
$$;

-- a click, which counts once, however often it is sent. NULL, or the seconds after which this address may click again
CREATE FUNCTION live_click(page text, click json, op text, address text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    delta bigint := CASE click->>'action' WHEN 'increment' THEN 1 WHEN 'decrement' THEN -1 END;
BEGIN
    IF delta IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'action is "increment" or "decrement"';
    ELSIF op = '' OR octet_length(op) > 200 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'Idempotency-Key has 1 to 200 bytes';
    ELSIF NOT dc_allow('clicks', address) THEN
        RETURN greatest(1, (SELECT ceil(extract(epoch FROM retry_after)) FROM dc_limit_peek('clicks', address)));
    ELSIF dc_incr_once('likes', page, delta, op) THEN
        PERFORM dc_incr_at('likes_by_minute', page) WHERE delta > 0;
    END IF;
    RETURN NULL;
END
$$;

-- the counter as it is at this moment, for the client that has clicked
CREATE FUNCTION live_clicked(page text) RETURNS text LANGUAGE sql AS $$
    SELECT row_to_json(c) FROM (SELECT count, updated_at FROM live_pages(ARRAY[page])) AS c
$$;

-- the likes of each minute of the last hour
CREATE FUNCTION live_minutes(page text) RETURNS text LANGUAGE sql AS $$
    SELECT json_build_object('from', min(bucket), 'counts', json_agg(value ORDER BY bucket))
    FROM dc_buckets('likes_by_minute', page, now() - interval '59 minutes')
$$;

CREATE FUNCTION live_trending() RETURNS text LANGUAGE sql AS $$
    SELECT json_build_object('trending', coalesce(json_agg(json_build_object('page', key, 'score', score)), '[]'))
    FROM dc_trending('likes', 10)
$$;

-- who has left, and who is there: [[page, viewer, is there], ...]. Each server is one connection of a viewer, so that nobody
-- can have too many of them.
CREATE FUNCTION live_viewers(server text, places json) RETURNS void LANGUAGE sql AS $$
    SELECT dc_exit('viewers', p->>0, p->>1, server) FROM json_array_elements(places) AS p WHERE (p->>2)::boolean IS NOT TRUE;
    SELECT dc_beat_many('viewers', array_agg(p->>0), array_agg(p->>1), array_agg(server))
    FROM json_array_elements(places) AS p WHERE (p->>2)::boolean HAVING count(*) > 0;
$$;
