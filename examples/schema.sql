-- The tables of the programs in psycopg/ and node/. Those of Django and ActiveRecord have their own migrations.
CREATE EXTENSION IF NOT EXISTS dcounter;

-- A like is a row, so a fan likes a post once. post_likes is the number of rows of each post, whichever program writes them.
CREATE TABLE likes (post_id bigint, fan text, PRIMARY KEY (post_id, fan));
SELECT dc_create('post_likes');
SELECT dc_bind('post_likes', 'likes', key => 'post_id', build => 'now');

-- Seats on sale, and the tickets that were sold: the key of a hold makes an order once.
SELECT dc_stock_create('seats');
CREATE TABLE ticket (hold_id uuid PRIMARY KEY, buyer text NOT NULL);

-- Views are kept in memory, and flushed every second. If dcounter is not in shared_preload_libraries, they are
-- counted in rows instead: the calls are the same, and dc_alter('views', mode => 'buffered') changes it later.
DO $$
BEGIN
    PERFORM dc_create('views', mode => 'buffered');
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    PERFORM dc_create('views');
END $$;

-- Messages of channels, and how far each member has read.
CREATE TABLE message (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, channel text NOT NULL, author text NOT NULL, body text NOT NULL);
SELECT dc_create('messages');
SELECT dc_unread_create('seen', 'messages');
