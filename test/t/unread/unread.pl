# What was read, where rows and memory come from elsewhere: after a crash, in a dump, on a standby, in a prepared
# transaction, of a buffered counter, on a subscriber; and under load, against the log of what all sessions have done.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('unread', init => { allows_streaming => 'logical' },
	conf => [ q{shared_preload_libraries = 'dcounter'}, 'autovacuum = off', "dcounter.compact_interval = '100ms'" ]);
my $tempdir = PostgreSQL::Test::Utils::tempdir();

# unread(NODE, DATABASE, TABLE, MEMBER [, KEY]): "unread/seen/upto"
sub unread
{
	my ($where, $database, $table, $member, $key) = @_;

	return sql($where, $database, sprintf(q{SELECT unread || '/' || seen || '/' || upto FROM dc_unread('%s', '%s', '{%s}')}, $table, $member, $key // 'a'));
}

# ------------------------------------------------------------
# Prepared transactions, and a crash
# ------------------------------------------------------------
sql($node, 'postgres', q{
	SELECT dc_create('messages'), dc_create('mem', mode => 'buffered', flush_interval => '1 day');
	SELECT dc_unread_create('seen', 'messages'), dc_unread_create('seen_mem', 'mem');
	SELECT dc_incr('messages', 'a', 5), dc_mark_read('seen', 'ann', 'a');
	SELECT dc_incr('messages', 'a', 3);
	BEGIN; SELECT dc_incr('messages', 'a', 2), dc_mark_read('seen', 'ann', 'a'); PREPARE TRANSACTION 'kept';
	BEGIN; SELECT dc_mark_read('seen', 'ben', 'a'); PREPARE TRANSACTION 'undone';});
is(unread($node, 'postgres', 'seen', 'ann'), '3/5/8', 'what is prepared is not read');

my $waits = dc_session($node, 'postgres');
$waits->send("SELECT dc_mark_read('seen', 'ann', 'a', 6)");
is(wait_for($node, 'postgres', q{SELECT count(*) FROM pg_locks WHERE NOT granted}, 1), '1', 'a mark waits for the prepared one');

my $open = dc_session($node, 'postgres');
$open->run(q{BEGIN; SELECT dc_mark_read('seen', 'cat', 'a'), dc_incr('messages', 'a', 100)});
$node->stop('immediate');
$node->start;
is(unread($node, 'postgres', 'seen', 'ann'), '3/5/8', 'after a crash: what was committed');
is(unread($node, 'postgres', 'seen', 'cat'), '8/0/8', 'and nothing else');
sql($node, 'postgres', "COMMIT PREPARED 'kept'");
sql($node, 'postgres', "ROLLBACK PREPARED 'undone'");
is(unread($node, 'postgres', 'seen', 'ann'), '0/10/10', 'a prepared transaction has its messages and its mark');
is(unread($node, 'postgres', 'seen', 'ben'), '10/0/10', 'one that is rolled back has not');

# A change that waits for the end, as the row has changed since the snapshot
my $later = dc_session($node, 'postgres');
foreach my $end ('COMMIT PREPARED', 'ROLLBACK PREPARED')
{
	$later->run(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1});
	sql($node, 'postgres', q{SELECT dc_mark_read('seen', 'dan', 'a', 2), dc_mark_read('seen', 'eve', 'a', 2); UPDATE seen SET seen = 1 WHERE member IN ('dan', 'eve')});
	$later->run(q{SELECT dc_mark_read('seen', 'dan', 'a', 6); SAVEPOINT s; SELECT dc_mark_read('seen', 'eve', 'a', 6); ROLLBACK TO s; PREPARE TRANSACTION 'later'});
	is(sql($node, 'postgres', q{SELECT member, seen FROM seen WHERE member IN ('dan', 'eve') ORDER BY 1}), "dan|1\neve|1", 'prepared');
	sql($node, 'postgres', "$end 'later'");
	is(sql($node, 'postgres', q{SELECT member, seen FROM seen WHERE member IN ('dan', 'eve') ORDER BY 1}), ($end =~ /COMMIT/ ? 'dan|6' : 'dan|1') . "\neve|1", "$end: what had to wait");
}
$later->run(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1});
sql($node, 'postgres', q{SELECT dc_mark_read('seen', 'dan', 'a', 3)});
$later->run(q{SELECT dc_mark_read('seen', 'dan', 'a', 6); DROP TABLE seen});
is($later->run('COMMIT'), '', 'a table that is dropped since');
sql($node, 'postgres', q{SELECT dc_create('t'); SELECT dc_unread_create('seen_t', 't'); SELECT dc_incr('t', 'a', 9), dc_mark_read('seen_t', 'dan', 'a', 1)});
$later->run(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1});
sql($node, 'postgres', q{SELECT dc_mark_read('seen_t', 'dan', 'a', 3)});
is($later->run(q{SELECT dc_mark_read('seen_t', 'dan', 'a', 6); TRUNCATE t; COMMIT; SELECT count(*) FROM seen_t}), "\n0", 'TRUNCATE takes along what has to wait');
$later->quit;
sql($node, 'postgres', q{SELECT dc_drop('t'); DROP TABLE seen_t; SELECT dc_unread_create('seen', 'messages'); SELECT dc_mark_read('seen', 'ann', 'a')});

# ------------------------------------------------------------
# Buffered: memory is a part of the number. A crash takes it, and the next mark takes the watermark back
# ------------------------------------------------------------
sql($node, 'postgres', q{SELECT dc_incr('mem', 'a', 10); SELECT dc_flush('mem'); SELECT dc_incr('mem', 'a', 4);});
is(unread($node, 'postgres', 'seen_mem', 'ann'), '14/0/14', 'buffered: what is in memory is unread');
sql($node, 'postgres', q{SELECT dc_mark_read('seen_mem', 'ann', 'a'), dc_mark_read('seen_mem', 'ben', 'a', 3)});
is(unread($node, 'postgres', 'seen_mem', 'ann'), '0/14/14', 'and can be read');
is(sql($node, 'postgres', q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; SELECT dc_incr('mem', 'a', 2);
	SELECT unread FROM dc_unread('seen_mem', 'ann', '{a}'); SELECT dc_mark_read('seen_mem', 'ann', 'a'); COMMIT;
	SELECT unread FROM dc_unread('seen_mem', 'ann', '{a}')}), "1\n\n2\n\n0", 'in a transaction as well');
$node->stop('immediate');
$node->start;
is(unread($node, 'postgres', 'seen_mem', 'ann'), '0/16/10', 'after a crash ann has read more than there is: nothing is unread');
is(unread($node, 'postgres', 'seen_mem', 'ben'), '7/3/10', 'others have what is there unread');
sql($node, 'postgres', q{SELECT dc_mark_read('seen_mem', 'ann', 'a', 12); SELECT dc_incr('mem', 'a')});
is(unread($node, 'postgres', 'seen_mem', 'ann'), '1/10/11', 'after the next mark of ann the next message is unread');
sql($node, 'postgres', q{SELECT dc_delete('mem', 'a'); SELECT dc_incr('mem', 'a', 2)});
is(unread($node, 'postgres', 'seen_mem', 'ann'), '2/10/13', 'deleted, with what was in memory');
sql($node, 'postgres', q{SELECT dc_alter('mem', mode => 'exact'); SELECT dc_mark_read('seen_mem', 'ann', 'a')});
is(unread($node, 'postgres', 'seen_mem', 'ann'), '0/13/13', 'not buffered any more');
sql($node, 'postgres', q{SELECT dc_alter('mem', mode => 'buffered', flush_interval => '100 ms'); SELECT dc_incr('mem', 'a')});
is(unread($node, 'postgres', 'seen_mem', 'ann'), '1/13/14', 'and again');
sql($node, 'postgres', q{TRUNCATE mem; SELECT dc_incr('mem', 'a')});
is(unread($node, 'postgres', 'seen_mem', 'ann'), '1/0/1', 'TRUNCATE takes the watermarks along');

# ------------------------------------------------------------
# Dump and restore
# ------------------------------------------------------------
sql($node, 'postgres', q{SELECT dc_create('"Odd"', partitions => 2); SELECT dc_unread_create('"Seen it"', '"Odd"');
	SELECT dc_incr('"Odd"', 'k' || i, i) FROM generate_series(1, 9) AS i;
	SELECT dc_mark_read('"Seen it"', 'ann', 'k' || i, 4) FROM generate_series(1, 9) AS i;
	SELECT dc_delete('"Odd"', 'k9'), dc_incr('"Odd"', 'k9');});
my $state = q{SELECT * FROM dc_unread('"Seen it"', 'ann', ARRAY(SELECT 'k' || i FROM generate_series(1, 9) AS i));
	SELECT * FROM dc_unread_tables ORDER BY name; SELECT * FROM seen ORDER BY 1, 2;};
my $before = sql($node, 'postgres', $state);

# restored(NAME, DUMP OPTIONS, SQL): a new database
sub restored
{
	my ($name, $options, $prepare) = @_;

	$node->command_ok([ 'pg_dump', '-Fc', @$options, '-f', "$tempdir/$name", $node->connstr('postgres') ], "$name: dump");
	sql($node, 'postgres', "CREATE DATABASE $name TEMPLATE template0");
	sql($node, $name, $prepare) if $prepare;
	return [ 'pg_restore', '-d', $node->connstr($name), "$tempdir/$name" ];
}

$node->command_ok(restored('whole', []), 'whole: restore');
is(sql($node, 'whole', $state), $before, 'a whole database is as it was');
sql($node, 'whole', q{SELECT dc_incr('messages', 'a'); SELECT dc_mark_read('seen', 'ben', 'a')});
is(unread($node, 'whole', 'seen', 'ann'), '1/10/11', 'and goes on');
$node->command_ok([ 'pg_restore', '--data-only', '-t', 'unread', '-d', $node->connstr('whole'), "$tempdir/whole" ], 'the settings can be restored twice');
is(sql($node, 'whole', 'SELECT count(*), count(DISTINCT unread) FROM dcounter.unread'), '3|3', 'and are there once');

# Some tables alone, without the settings
$node->command_ok(restored('schema', [ '-t', 'messages*', '-t', 'seen', '-t', '"Odd"*', '-t', '"Seen it"' ], 'CREATE EXTENSION dcounter'), 'schema: restore');
fails_with($node, 'schema', q{SELECT * FROM dc_unread('seen', 'ann', '{a}')}, '42809', 'a table that was restored alone is not known');
sql($node, 'schema', q{SELECT dc_adopt('messages'), dc_adopt('"Odd"'); SELECT dc_unread_adopt('seen', 'messages'), dc_unread_adopt('"Seen it"', '"Odd"')});
is(unread($node, 'schema', 'seen', 'ann'), '0/10/10', 'until it is adopted');
is(sql($node, 'schema', q{SELECT * FROM dc_unread('"Seen it"', 'ann', '{k8,k9}')}), "k8|4|4|8\nk9|1|4|10", 'with what was deleted');

# A new extension
sql($node, 'schema', q{DROP EXTENSION dcounter; CREATE EXTENSION dcounter; SELECT dc_adopt('messages'); SELECT dc_unread_adopt('seen', 'messages')});
is(unread($node, 'schema', 'seen', 'ann'), '0/10/10', 'after the extension was made anew');

# ------------------------------------------------------------
# A standby, and its promotion
# ------------------------------------------------------------
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
my $old = dc_session($standby, 'postgres');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($old->run(q{SELECT unread FROM dc_unread('seen', 'ann', '{a}')}), '0', 'a snapshot on the standby');
sql($node, 'postgres', q{SELECT dc_incr('messages', 'a', 4); SELECT dc_mark_read('seen', 'ann', 'a', 11); SELECT dc_delete('messages', 'gone'), dc_compact('messages')});
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is(unread($standby, 'postgres', 'seen', 'ann'), '3/11/14', 'the standby says what is unread');
is($old->run(q{SELECT unread FROM dc_unread('seen', 'ann', '{a}')}), '0', 'in the old snapshot, too');
is($old->run(q{SELECT dc_mark_read('seen', 'ann', 'a')}), 'ERROR 25006', 'a mark is the read-only error');
fails_with($standby, 'postgres', "SELECT $_", '25006', "$_ as well")
  foreach q{dc_mark_read('seen', 'ann', 'a')}, q{dc_unread_create('x', 'messages')}, q{dc_unread_adopt('seen', 'messages')}, q{dc_unread_drop('seen')};
$old->quit;
$standby->promote;
sql($standby, 'postgres', q{SELECT dc_mark_read('seen', 'ann', 'a', 13)});
is(unread($standby, 'postgres', 'seen', 'ann'), '1/13/14', 'promoted, it goes on');
$standby->stop;

# ------------------------------------------------------------
# Logical replication: of the table, as of any
# ------------------------------------------------------------
sql($node, 'postgres', 'CREATE DATABASE subscriber TEMPLATE template0');
sql($node, 'subscriber', q{CREATE EXTENSION dcounter; SELECT dc_create('messages'); SELECT dc_unread_create('seen', 'messages')});
sql($node, 'postgres', q{CREATE PUBLICATION p FOR TABLE messages, messages_shard, seen; SELECT pg_create_logical_replication_slot('s', 'pgoutput')});
sql($node, 'subscriber', sprintf(q{CREATE SUBSCRIPTION s CONNECTION $c$%s$c$ PUBLICATION p WITH (create_slot = false, slot_name = 's')}, $node->connstr('postgres')));
sql($node, 'postgres', q{SELECT dc_incr('messages', 'a', 6); SELECT dc_mark_read('seen', 'ann', 'a', 17), dc_mark_read('seen', 'dan', 'a', 2)});
is(wait_for($node, 'subscriber', q{SELECT string_agg(unread || '/' || seen, ' ') FROM unnest(ARRAY['ann', 'dan']) AS m, dc_unread('seen', m, '{a}')}, '3/17 18/2'), '3/17 18/2',
	'a subscriber says what is unread');
sql($node, 'postgres', 'ALTER TABLE seen REPLICA IDENTITY NOTHING');
fails_with($node, 'postgres', q{SELECT dc_mark_read('seen', 'ann', 'a')}, '55000', 'a mark that could not be sent is refused');
sql($node, 'postgres', 'ALTER TABLE seen REPLICA IDENTITY DEFAULT');
sql($node, 'subscriber', 'DROP SUBSCRIPTION s');

# ------------------------------------------------------------
# An index that was made while an old snapshot was held is not for that snapshot
# ------------------------------------------------------------
my $reader = dc_session($node, 'postgres');
sql($node, 'postgres', q{SELECT dc_create('young'); SELECT dc_unread_create('seen_young', 'young'); SELECT dc_incr('young', 'a', 9); SELECT dc_mark_read('seen_young', 'ann', 'a', 1); SELECT dc_mark_read('seen_young', i, 'a', 1) FROM generate_series(1, 50) AS i});
$reader->run(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1});
sql($node, 'postgres', q{SELECT dc_mark_read('seen_young', 'ann', 'a', 2)});
sql($node, 'postgres', q{BEGIN; ALTER TABLE seen_young DROP CONSTRAINT seen_young_pkey; ALTER TABLE seen_young ADD PRIMARY KEY (member, key); COMMIT});
is(sql($node, 'postgres', q{SELECT indcheckxmin FROM pg_index WHERE indrelid = 'seen_young'::regclass}), 't', 'an index that is not for old snapshots');
is($reader->run(q{SELECT unread, seen FROM dc_unread('seen_young', 'ann', '{a}')}), '8|1', 'an old snapshot shows what was read then');
is($reader->run(q{SELECT dc_mark_read('seen_young', 'ann', 'a', 4); SELECT unread, seen FROM dc_unread('seen_young', 'ann', '{a}')}), "\n5|4", 'and its own mark on top');
$reader->run('COMMIT');
is(sql($node, 'postgres', q{SELECT unread, seen FROM dc_unread('seen_young', 'ann', '{a}')}), '5|4', 'which is there in the end');

# ------------------------------------------------------------
# Load: members read what they see, and nothing that they have not seen is ever lost
# ------------------------------------------------------------
# No increment is lost or taken back in channels k1 to k4, so there unread is exactly what is above the watermark.
sql($node, 'postgres', q{
	SELECT dc_create('load', shard_by => 'random', max_shards => 8); SELECT dc_unread_create('seen_load', 'load');
	CREATE TABLE bad (what text);
	CREATE TABLE marked (member text, key text, upto bigint);
	CREATE INDEX ON marked (member, key);
	CREATE FUNCTION reads(m text, k text, part float8) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		u record;
		a record;
		n bigint;
	BEGIN
		SELECT * INTO STRICT u FROM dc_unread('seen_load', m, ARRAY[k]);
		IF u.unread <> u.upto - least(u.seen, u.upto) OR u.unread < 0 THEN
			INSERT INTO bad VALUES (format('%s %s: %s', m, k, u));
		END IF;
		n := floor(u.upto * part);
		IF part = 1 THEN
			PERFORM dc_mark_read('seen_load', m, k);
		ELSE
			PERFORM dc_mark_read('seen_load', m, k, n);
		END IF;
		INSERT INTO marked VALUES (m, k, n);
		SELECT * INTO STRICT a FROM dc_unread('seen_load', m, ARRAY[k]);
		IF a.seen < n OR a.seen < u.seen OR a.unread <> a.upto - least(a.seen, a.upto) OR a.upto < u.upto THEN
			INSERT INTO bad VALUES (format('%s %s: %s, marked %s: %s', m, k, u, n, a));
		END IF;
	END $$;});
my $script = sub {
	my ($level) = @_;
	return file_of("load_$level", qq{
\\set m random(1, 5)
\\set k random(1, 4)
\\set what random(1, 100)
BEGIN ISOLATION LEVEL $level;
SELECT dc_incr('load', 'k' || :k);
\\if :what > 40
SELECT reads('m' || :m, 'k' || :k, CASE WHEN :what > 80 THEN 1 ELSE 0.01 * :what END);
\\endif
\\if :what < 10
SAVEPOINT s;
SELECT dc_incr('load', 'k' || :k, 7), reads('m' || :m, 'k' || :k, 1);
ROLLBACK TO s;
\\endif
\\if :what > 97
ROLLBACK;
\\else
COMMIT;
\\endif
});
};
my @clients = map { start_command('pgbench', '-n', '-c', 4, '-t', torture(250, 20000), '-f', $script->($_), $node->connstr('postgres')) } 'READ COMMITTED', 'REPEATABLE READ';
my $other = start_command('pgbench', '-n', '-c', 2, '-t', torture(100, 8000), '-f', file_of('delete', q{
\set k random(5, 6)
\set m random(1, 5)
SELECT dc_incr('load', 'k' || :k, 3);
SELECT dc_mark_read('seen_load', 'm' || :m, 'k' || :k);
SELECT dc_delete('load', 'k' || :k);
INSERT INTO bad SELECT format('deleted: %s', u) FROM dc_unread('seen_load', 'm' || :m, ARRAY['k' || :k]) AS u WHERE unread < 0 OR seen > upto;
}), $node->connstr('postgres'));

foreach my $job (@clients, $other)
{
	is(finish_job($job), 0, 'clients are done') or diag($job->{err});
	unlike($job->{err}, qr/ERROR:/, 'and have met no error');
}
is(sql($node, 'postgres', 'SELECT * FROM bad LIMIT 5'), '', 'nobody has seen anything odd');
is(sql($node, 'postgres', q{SELECT count(*) FROM (SELECT member, key, max(upto) AS upto FROM marked GROUP BY member, key) AS l
	JOIN seen_load USING (member, key) WHERE seen < upto}), '0', 'no mark is lost');
is(sql($node, 'postgres', q{SELECT count(*) FROM seen_load AS s, LATERAL dc_unread('seen_load', s.member, ARRAY[s.key]) AS u WHERE s.member <> '' AND u.seen > u.upto}), '0', 'nobody has read more than there is');

$_->quit foreach grep { defined } $reader;
$node->stop;
done_testing();
