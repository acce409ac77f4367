# Eight roll-ups of two measures, of one binding on a partitioned table, are what GROUP BY CUBE says, in one snapshot: while rows
# are written that change tenant, kind, day and partition, in sessions of several time zones, while a partition comes, goes and is truncated, while
# a build runs and after crashes. So are those by blog and day of comments, whose posts move to another blog, and are deleted. And so they are in a database that was restored from a dump.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $rounds = torture(3, 1000);
my $looks = torture(6, 4);
my $node = dc_node('rollups', conf => [ "shared_preload_libraries = 'dcounter'", "dcounter.compact_interval = '50ms'", 'autovacuum = off' ]);

sql($node, 'postgres', $_) foreach q{
	CREATE TABLE event (id bigint GENERATED ALWAYS AS IDENTITY, tenant int NOT NULL, kind text, amount int, at timestamptz NOT NULL) PARTITION BY RANGE (at);
	CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2026-01-01 00:00+00') TO ('2026-02-01 00:00+00');
	CREATE TABLE event_2 PARTITION OF event FOR VALUES FROM ('2026-02-01 00:00+00') TO ('2026-03-01 00:00+00');
	CREATE TABLE event_3 PARTITION OF event FOR VALUES FROM ('2026-03-01 00:00+00') TO ('2026-04-01 00:00+00');
	CREATE TABLE old (at timestamptz NOT NULL, amount int, kind text, tenant int NOT NULL, id bigint NOT NULL);
	CREATE INDEX ON event (id);
	CREATE FUNCTION fill_old() RETURNS void LANGUAGE sql AS $$
		INSERT INTO old SELECT '2025-12-01'::timestamptz + g * interval '1 hour', g, chr(97 + g % 3), g % 4, -g FROM generate_series(1, 300) AS g
	$$;
	SELECT fill_old();
	INSERT INTO event (tenant, kind, amount, at) SELECT g % 4, chr(97 + g % 3), g % 9, '2026-01-01 00:00+00'::timestamptz + g * interval '1 hour' FROM generate_series(1, 1500) AS g;
}, q{
	SELECT dc_create('stats');
	SELECT dc_bind('stats', 'event', key => 'tenant, kind, (at AT TIME ZONE ''America/St_Johns'')::date AS day', value => '1 AS n, amount', group_by => 'CUBE (tenant, kind, day)', build => 'none');
	CALL dc_build('stats');
}, q{
	CREATE VIEW by_sql AS
		SELECT jsonb_build_array(tenant, kind, day, v.name) AS key, v.value
		FROM (SELECT tenant, kind, day, count(*) AS n, sum(amount) AS amount FROM (SELECT *, (at AT TIME ZONE 'America/St_Johns')::date AS day FROM event) AS e
				GROUP BY CUBE (tenant, kind, day) HAVING NOT (kind IS NULL AND grouping(kind) = 0)) AS s,
			LATERAL (VALUES ('n', n), ('amount', amount)) AS v(name, value)
		WHERE v.value <> 0;
	CREATE TABLE post (id int PRIMARY KEY, blog int NOT NULL, UNIQUE (id, blog));
	CREATE TABLE comment (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, post int NOT NULL, blog int NOT NULL, day date NOT NULL,
		FOREIGN KEY (post, blog) REFERENCES post (id, blog) ON UPDATE CASCADE ON DELETE CASCADE);
	CREATE INDEX ON comment (post);
	INSERT INTO post SELECT i, i % 3 FROM generate_series(1, 8) AS i;
	SELECT dc_create('blogs');
	SELECT dc_bind('blogs', 'comment', key => 'blog, day', value => '1 AS n, (id % 5) AS rest', group_by => 'ROLLUP (blog, day)', build => 'now');
	CREATE VIEW differing AS
		SELECT key, value, s IS NULL AS counted FROM by_sql AS s FULL JOIN dc_scan('stats') AS c USING (key, value) WHERE s IS NULL OR c IS NULL
		UNION ALL SELECT key, value, s IS NULL FROM (SELECT jsonb_build_array(blog, day, v.name) AS key, v.value
				FROM (SELECT blog, day, count(*) AS n, sum(id % 5) AS rest FROM comment GROUP BY ROLLUP (blog, day)) AS b, LATERAL (VALUES ('n', n), ('rest', rest)) AS v(name, value) WHERE v.value <> 0) AS s
			FULL JOIN dc_scan('blogs') AS c USING (key, value) WHERE s IS NULL OR c IS NULL;
};
is(sql($node, 'postgres', 'SELECT count(*) > 500 FROM by_sql'), 't', 'there is something to compare');

my $script = file_of('rollups.sql', q{
\set t random(0, 5)
\set n random(1, 1000000)
\set h random(0, 2150)
\set zone random(0, 2)
SELECT set_config('timezone', (ARRAY['UTC', 'Pacific/Apia', 'America/Los_Angeles'])[:zone + 1], false), set_config('datestyle', (ARRAY['ISO', 'SQL, DMY', 'German'])[:zone + 1], false);
BEGIN;
INSERT INTO event (tenant, kind, amount, at) SELECT :t, CASE WHEN g <> 2 THEN chr(97 + (:n + g) % 5) END, (:n + g) % 7 - 2, '2026-01-01 00:00+00'::timestamptz + (:h + g) * interval '1 hour' FROM generate_series(1, 4) AS g;
UPDATE event SET at = '2026-01-01 00:00+00'::timestamptz + (:h * 7 % 2150) * interval '1 hour', tenant = (tenant + 1) % 6 WHERE id IN (SELECT id FROM event WHERE id > :n % (SELECT max(id) FROM event) ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED);
SAVEPOINT a;
UPDATE event SET kind = CASE WHEN :t > 0 THEN chr(97 + :t) END, amount = -amount WHERE id IN (SELECT id FROM event WHERE id > (:n * 3) % (SELECT max(id) FROM event) ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED);
DELETE FROM event WHERE id IN (SELECT id FROM event WHERE id > (:n * 7) % (SELECT max(id) FROM event) ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED);
\if :zone
ROLLBACK TO a;
\endif
DELETE FROM event WHERE id IN (SELECT id FROM event WHERE id > (:n * 5) % (SELECT max(id) FROM event) ORDER BY id LIMIT 4 FOR UPDATE SKIP LOCKED);
COMMIT;
});

# One client at a time has a post
my $blogs = file_of('blogs.sql', q{
\set p random(1, 8)
\set b random(0, 2)
\set d random(0, 9)
\set gone random(0, 9)
BEGIN;
SELECT pg_advisory_xact_lock(:p);
WITH moved AS (UPDATE post SET blog = :b WHERE id = :p RETURNING id, blog) INSERT INTO comment (post, blog, day) SELECT id, blog, date '2026-02-25' + :d FROM moved, generate_series(0, :b);
UPDATE comment SET day = day - :d + 4 WHERE post = :p AND id % 3 = :b;
SAVEPOINT a;
UPDATE post SET blog = 2 - :b WHERE id = :p;
DELETE FROM comment WHERE post = :p AND id % 7 = :b;
\if :d
ROLLBACK TO a;
\endif
\if :gone
DELETE FROM comment WHERE post = :p AND id % 9 = :d;
\else
DELETE FROM post WHERE id = :p;
INSERT INTO post VALUES (:p, :b);
\endif
COMMIT;
});

foreach my $round (1 .. $rounds)
{
	my $job = start_command('pgbench', '-n', '-c', '4', '-T', '3600', '-f', "$script\@3", '-f', "$blogs\@1", $node->connstr('postgres'));

	foreach my $look (1 .. $looks)
	{
		sleep(0.1);
		is(sql($node, 'postgres', 'SELECT * FROM differing LIMIT 5'), '', "round $round, look $look: what SQL says");
		sql($node, 'postgres', q{ALTER TABLE event ATTACH PARTITION old FOR VALUES FROM ('2025-12-01 00:00+00') TO ('2026-01-01 00:00+00')}) if $look % 4 == 1;
		sql($node, 'postgres', 'TRUNCATE old') if $look % 4 == 2 && $round % 2 == 0;
		sql($node, 'postgres', q{CALL dc_build('stats', 50)}) if $look % 4 == 2;
		sql($node, 'postgres', 'ALTER TABLE event DETACH PARTITION old; SELECT fill_old()') if $look % 4 == 3;
	}
	$node->stop('immediate');
	finish_job($job);
	unlike($job->{err}, qr/ERROR(?!.*terminat)/, "round $round: writers meet no error");
	$node->start;
	is(sql($node, 'postgres', 'SELECT * FROM differing LIMIT 5'), '', "round $round: what SQL says, after a crash");
	is(sql($node, 'postgres', q{SELECT (SELECT count(*) FROM dc_source_check('stats')) + (SELECT count(*) FROM dc_source_check('blogs'))}), '0', "round $round: no difference");
	sql($node, 'postgres', 'ALTER TABLE event DETACH PARTITION old; SELECT fill_old()') if sql($node, 'postgres', q{SELECT count(*) FROM pg_inherits WHERE inhrelid = 'old'::regclass}) > 0;
}

cmp_ok(sql($node, 'postgres', 'SELECT count(*) FROM comment'), '>', 10, 'comments were there');

# the view shows what is wrong
sql($node, 'postgres', q{SET session_replication_role = replica; INSERT INTO event (tenant, kind, amount, at) VALUES (77, 'x', 1, '2026-03-03')});
cmp_ok(sql($node, 'postgres', 'SELECT count(*) FROM differing'), '>=', 16, 'a row that was not counted is seen in all sets');
is(sql($node, 'postgres', q{SELECT count(*) FROM dc_source_check('stats')}), '16', 'by the check as well');
sql($node, 'postgres', q{CALL dc_build('stats')});
is(sql($node, 'postgres', 'SELECT * FROM differing LIMIT 5'), '', 'what SQL says, when it is built');

# a dump
my $dump = PostgreSQL::Test::Utils::tempdir . '/rollups.dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('postgres') ], 'dump');
sql($node, 'postgres', 'CREATE DATABASE restored TEMPLATE template0');
$node->command_ok([ 'pg_restore', '-d', $node->connstr('restored'), $dump ], 'restore');
is(sql($node, 'restored', 'SELECT * FROM differing LIMIT 5'), '', 'restored: what SQL says');
sql($node, 'restored', q{UPDATE event SET kind = 'q', at = at - interval '1 day' WHERE id % 3 = 0 AND at > '2026-01-02'});
is(sql($node, 'restored', 'SELECT * FROM differing LIMIT 5'), '', 'restored: it goes on counting');
sql($node, 'restored', 'UPDATE post SET blog = blog + 1');
is(sql($node, 'restored', 'SELECT * FROM differing LIMIT 5'), '', 'restored: with other parents as well');
is(sql($node, 'restored', q{SELECT (SELECT count(*) FROM dc_source_check('stats')) + (SELECT count(*) FROM dc_source_check('blogs'))}), '0', 'restored: no difference');

$node->stop;
done_testing();
