-- What the live page needs, made once by the owner of the database. The server then connects as web, which may do nothing else.
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
