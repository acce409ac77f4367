# Consumers continue where they were: after dump and restore, pg_upgrade, promotion of a standby, a
# crash with a prepared transaction. And the ring of partitions: what is truncated when, and who
# holds that up.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tempdir = PostgreSQL::Test::Utils::tempdir();
my @conf = ('autovacuum = off', "dcounter.outbox_rotate_age = 0", "dcounter.outbox_keep = 0");

my $functions = q{
	CREATE FUNCTION publish(key text, topic text = 't') RETURNS void LANGUAGE sql AS $$ SELECT dc_publish(topic, key, 'x', '{"a": 1}') $$;
	CREATE FUNCTION seq_of(key text) RETURNS bigint LANGUAGE sql AS $$ SELECT max(seq) FROM dcounter.outbox WHERE aggregateid = key $$;

	-- What comes next, acknowledged at once
	CREATE FUNCTION take(who text, how_many int = 1000, member text = NULL) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		last bigint; keys text;
	BEGIN
		SELECT max(seq), string_agg(key || CASE WHEN attempt > 1 THEN '(' || attempt || ')' ELSE '' END, ' ')
		INTO last, keys FROM dc_fetch(who, how_many, '0', member);
		IF last IS NOT NULL THEN
			PERFORM dc_ack(who, last, member);
		END IF;
		RETURN keys;
	END $$;

	-- All that is left, in any order: of a consumer with members that is only an order per key
	CREATE FUNCTION drain(who text, member text = NULL) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		more text; keys text[] := '{}';
	BEGIN
		LOOP
			more := take(who, 3, member);
			EXIT WHEN more IS NULL;
			keys := keys || string_to_array(more, ' ');
		END LOOP;
		RETURN array_to_string(ARRAY(SELECT regexp_replace(k, '\(\d+\)', '') FROM unnest(keys) AS k ORDER BY 1), ' ');
	END $$;};

# Consumers in all kinds of states
my $consumers = q{
	CREATE TABLE doc (id text PRIMARY KEY, title text);
	SELECT dc_outbox_attach('doc');
	SELECT dc_consumer_create('all'), dc_consumer_create('some', ARRAY['other']), dc_consumer_create('fetched'), dc_consumer_create('later'),
		dc_consumer_create('dead', ARRAY['t']), dc_consumer_create('team');
	SELECT dc_consumer_alter('dead', max_attempts => 1), dc_consumer_alter('later', on_nack => 'skip'), dc_consumer_alter('team', lease => '1 hour');
	SELECT publish('a' || i) FROM generate_series(1, 5) AS i;
	SELECT publish('o1', 'other');
	INSERT INTO doc VALUES ('d1', 'one'), ('d2', 'two');
	SELECT take('all', 2);
	SELECT key FROM dc_fetch('fetched', 3);
	SELECT key FROM dc_fetch('later', 3);
	SELECT dc_nack('later', seq_of('a1'), '0', 'busy');
	SELECT dc_ack('later', seq_of('a3'));
	SELECT key FROM dc_fetch('dead', 2);
	SELECT dc_nack('dead', seq_of('a1'), '0', 'broken');
	SELECT dc_ack('dead', seq_of('a2'));
	-- two members, which have had all but what comes now
	SELECT count(*) FROM dc_fetch('team', 1, '0', 'm1');
	SELECT count(*) FROM dc_fetch('team', 1, '0', 'm2');
	SELECT drain('team', 'm1'), drain('team', 'm2'), drain('team', 'm1'), drain('team', 'm2');
	SELECT publish('b' || i) FROM generate_series(1, 9) AS i;
};

my $dead = q{SELECT string_agg(format('%s %s %s', consumer, key, reason), ' ') FROM dc_dead_letters};

# goes_on(NODE, DATABASE, NAME): tests that each of them does, and what comes new
sub goes_on
{
	my ($node, $database, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $b = join(' ', map { "b$_" } 1 .. 9);

	is(sql($node, $database, $dead), 'dead a1 broken', "$name: dead letters");
	is(sql($node, $database, q{SELECT key FROM dc_fetch('all', 1)}), 'a3', "$name: the next one is that after the last acknowledged");
	sql($node, $database, q{SELECT publish('new'); SELECT publish('o2', 'other'); UPDATE doc SET title = 'three' WHERE id = 'd2'});
	is(sql($node, $database, q{SELECT take('some')}), 'o1 o2', "$name: consumer of a topic");
	is(sql($node, $database, q{SELECT take('all') ~ '^a3.* a4.* a5.* o1 d1 d2 b1 b2 b3 b4 b5 b6 b7 b8 b9 new o2 d2$', take('all')}), 't|', "$name: in order, and what comes new is last");
	is(sql($node, $database, q{SELECT take('fetched', 4)}), 'a1(2) a2(2) a3(2) a4', "$name: what was fetched and not acknowledged comes again");
	is(sql($node, $database, q{SELECT drain('later')}), "a1 a4 a5 $b d1 d2 d2 new o1 o2", "$name: an event that was handed back comes again");
	is(sql($node, $database, q{SELECT drain('dead')}), "a3 a4 a5 $b new", "$name: a dead one does not");
	is(sql($node, $database, q{SELECT dc_dead_letter_retry('dead'); SELECT drain('dead')}), "1\na1", "$name: but when it is asked for");
	is(sql($node, $database, q{SELECT array_to_string(ARRAY(SELECT unnest(string_to_array(drain('team', 'm1') || ' ' || drain('team', 'm2'), ' ')) ORDER BY 1), ' ')}), "$b d2 new o2",
		"$name: members go on");
	is(sql($node, $database, q{SELECT count(*), count(DISTINCT seq), count(DISTINCT id) FROM dcounter.outbox}) =~ s/^(\d+)\|\1\|\1$/same/r, 'same', "$name: no number twice");
	is(sql($node, $database, q{SELECT count(*) FROM dcounter.outbox_ring}), '1', "$name: one partition is the current one");
	# later partitions, and all of them empty in the end
	sql($node, $database, q{CALL dc_maintain(); SELECT publish('newer'); CALL dc_maintain(); SELECT publish('newest')});
	is(sql($node, $database, q{SELECT take('all'), drain('fetched') ~ 'new new', drain('later')}), 'newer newest|f|newer newest' =~ s/\|f\|/|t|/r, "$name: new partitions are used");
	is(sql($node, $database, q{SELECT drain('some') || drain('dead') || drain('team', 'm1') || drain('team', 'm2') IS NOT NULL; CALL dc_maintain(); CALL dc_maintain(); CALL dc_maintain(); SELECT count(*) FROM dcounter.outbox}), "t\n0",
		"$name: and emptied when all have passed");
	return;
}

# statements that change something, which a standby refuses
my @writing = (
	"dc_publish('t', 'k', 'x', '{}')", "dc_fetch('all')", "dc_fetch('all', 1, '1 s', 'm')", "dc_ack('all', 1)", "dc_nack('all', 1)",
	"dc_seek('all', 'now')", "dc_seek('all', 1)", "dc_consumer_create('x')", "dc_consumer_drop('all')", "dc_consumer_alter('all', lease => '1 s')",
	"dc_dead_letter_retry('dead')", "dc_dead_letter_discard('dead')", "dc_outbox_attach('doc')", "dc_outbox_detach('doc')");

##
## Dump and restore

my $node = dc_node('source', conf => [ @conf, "shared_preload_libraries = 'dcounter'", "dcounter.outbox_interval = '1d'" ]);
my $target = dc_node('target', conf => \@conf);

sub test_dump
{
	# not in the first partition
	sql($node, 'postgres', 'CREATE DATABASE source');
	sql($node, 'source', "CREATE EXTENSION dcounter; CALL dc_maintain(); $functions");
	sql($node, 'source', q{SELECT dc_consumer_create('before'), publish('zero')});
	sql($node, 'source', "CALL dc_maintain(); SELECT take('before'), dc_consumer_drop('before')");
	sql($node, 'source', $consumers);
	my $state = q{SELECT 'outbox', count(*), min(seq), max(seq) FROM dcounter.outbox; SELECT name, topics, lease, max_attempts, on_nack FROM dcounter.consumer ORDER BY 1};
	my $expected = sql($node, 'source', $state);

	$node->command_ok([ 'pg_dump', '-Fc', '-f', "$tempdir/custom", '-d', $node->connstr('source') ], 'pg_dump, custom');
	$node->command_ok([ 'pg_dump', '-f', "$tempdir/plain.sql", '-d', $node->connstr('source') ], 'pg_dump, plain');
	$node->command_ok([ 'pg_dump', '--inserts', '--clean', '--if-exists', '-f', "$tempdir/clean.sql", '-d', $node->connstr('source') ], 'pg_dump --inserts --clean');

	# Another cluster, far ahead or behind in transaction ids: they mean nothing here.
	sql($target, 'postgres', "CREATE DATABASE $_ TEMPLATE template0") foreach 'custom', 'plain', 'existing', 'clean';
	$target->command_ok([ 'pg_restore', '-e', '-d', $target->connstr('custom'), "$tempdir/custom" ], 'restored into a new cluster');
	$target->command_ok([ 'psql', '-Xq', '-o', '/dev/null', '-v', 'ON_ERROR_STOP=1', '-d', $target->connstr('plain'), '-f', "$tempdir/plain.sql" ], 'the same from a plain dump');
	sql($target, 'existing', 'CREATE EXTENSION dcounter');
	$target->command_ok([ 'pg_restore', '-e', '-d', $target->connstr('existing'), "$tempdir/custom" ], 'into a database that has the extension');
	sql($target, 'clean', "CREATE EXTENSION dcounter; $functions");
	sql($target, 'clean', 'SELECT publish($$old$$) FROM generate_series(1, 50)');
	sql($target, 'clean', $consumers);
	$target->command_ok([ 'psql', '-Xq', '-o', '/dev/null', '-v', 'ON_ERROR_STOP=1', '-d', $target->connstr('clean'), '-f', "$tempdir/clean.sql" ], '--clean, over one that is in use');
	foreach my $database ('custom', 'plain', 'existing', 'clean')
	{
		is(sql($target, $database, $state), $expected, "$database: events and settings are there");
		goes_on($target, $database, $database);
	}
	goes_on($node, 'source', 'source');
	return;
}

##
## Standby and crash

sub test_standby
{
	my $primary = dc_node('primary', init => { allows_streaming => 1 }, conf => [ @conf, "shared_preload_libraries = 'dcounter'", "dcounter.outbox_interval = '1d'" ]);
	my $standby = PostgreSQL::Test::Cluster->new('standby');

	sql($primary, 'postgres', $functions);
	$primary->backup('base');
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	$standby->start;
	sql($primary, 'postgres', $consumers);
	sql($primary, 'postgres', q{SELECT dc_consumer_create('two', ARRAY['two']);
		SELECT publish('c1', 'two'); BEGIN; SELECT publish('p1', 'two'), publish('p2', 'two'); PREPARE TRANSACTION 'open';
		BEGIN; SELECT publish('r1', 'two'); PREPARE TRANSACTION 'undone';
		BEGIN; INSERT INTO doc VALUES ('none'); ROLLBACK; SELECT publish('c2', 'two')});
	is(sql($primary, 'postgres', q{SELECT take('two')}), 'c1', 'a prepared transaction holds back what comes after');
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));

	fails_with($standby, 'postgres', "SELECT $_", '25006', "standby: $_ is the read-only error") foreach @writing;
	foreach my $view ('dc_stat_consumers', 'dc_dead_letters')
	{
		is(sql($standby, 'postgres', "SELECT count(*) FROM $view"), sql($primary, 'postgres', "SELECT count(*) FROM $view"), "standby: $view");
	}
	is(sql($standby, 'postgres', 'SELECT count(*) > 0 FROM dc_stat_outbox'), 't', 'standby: dc_stat_outbox');
	# a session that has been there before
	my $session = dc_session($standby, 'postgres');
	$session->run('SELECT count(*) FROM dcounter.outbox, dc_stat_consumers');
	is($session->run(q{SELECT count(*) FROM dc_fetch('all')}), 'ERROR 25006', 'standby: also in a session');

	$primary->stop('immediate');
	$standby->promote;
	is($session->run(q{SELECT take('two')}), '', 'promoted: the prepared transaction still holds back');
	$session->quit;
	is(sql($standby, 'postgres', q{SELECT publish('c3', 'two'); SELECT take('two') IS NULL; ROLLBACK PREPARED 'undone'; SELECT take('two') IS NULL; COMMIT PREPARED 'open'; SELECT take('two')}),
		"\nt\nt\np1 p2 c2 c3", 'promoted: its events come in order when it is committed');
	sql($standby, 'postgres', q{SELECT dc_consumer_drop('two')});
	# what the others have got meanwhile
	$standby->stop;
	return;
}

# The same consumers on a standby without the prepared transactions
sub test_promotion
{
	my $primary = dc_node('primary2', init => { allows_streaming => 1 }, conf => \@conf);
	my $standby = PostgreSQL::Test::Cluster->new('standby2');

	sql($primary, 'postgres', $functions);
	sql($primary, 'postgres', $consumers);
	$primary->backup('base');
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	$standby->start;
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	$primary->stop('immediate');
	$standby->promote;
	goes_on($standby, 'postgres', 'promoted');
	$standby->stop;
	return;
}

sub test_crash
{
	my ($node, $name) = @_;

	sql($node, 'postgres', $functions);
	sql($node, 'postgres', q{SELECT dc_consumer_create('c');
		SELECT publish('c1'); BEGIN; SELECT publish('p1'); PREPARE TRANSACTION 'open'; SELECT publish('c2');
		BEGIN; SELECT publish('r1'); PREPARE TRANSACTION 'undone'; SELECT publish('c3')});
	is(sql($node, 'postgres', q{SELECT take('c')}), 'c1', "$name: held back by a prepared transaction");
	my $preloaded = sql($node, 'postgres', 'SHOW shared_preload_libraries') ne '';
	my @when = ('restart', 'kill -9', $preloaded ? 'without preload' : 'with preload');
	foreach my $when (@when)
	{
		$node->append_conf('postgresql.conf', 'shared_preload_libraries = ' . ($preloaded ? "''" : "'dcounter'")) if $when =~ /preload/;
		if ($when eq 'kill -9')
		{
			$node->kill9;
			restart_after_kill9($node);
		}
		else
		{
			$node->restart;
		}
		is(sql($node, 'postgres', qq{SELECT publish('after $when'); SELECT take('c') IS NULL}), "\nt", "$name: also after $when");
	}
	# what the prepared one has written is not truncated meanwhile
	is(sql($node, 'postgres', q{SET statement_timeout = '20 s'; CALL dc_maintain(); CALL dc_maintain(); SELECT take('c') IS NULL; ROLLBACK PREPARED 'undone'; SELECT take('c') IS NULL;
		COMMIT PREPARED 'open'; SELECT take('c')}), join(' ', "t\nt\np1 c2 c3", map { "after $_" } @when), "$name: all in order when it is committed");
	return;
}

##
## pg_upgrade

sub test_upgrade
{
	my $old = dc_node('old', conf => [ @conf, "shared_preload_libraries = 'dcounter'", "dcounter.outbox_interval = '1d'" ]);
	my $new = dc_node('new', extension => 0, conf => [ @conf, "shared_preload_libraries = 'dcounter'", "dcounter.outbox_interval = '1d'" ]);
	my $bindir = $old->config_data('--bindir');
	my ($out, $err) = ('', '');

	SKIP:
	{
		if (!-x "$bindir/pg_upgrade")
		{
			note('no pg_upgrade');
			skip('no pg_upgrade', 1);
		}
		sql($old, 'postgres', $functions);
		sql($old, 'postgres', "CALL dc_maintain(); SELECT count(publish('zero')); CALL dc_maintain();");
		sql($old, 'postgres', $consumers);
		$old->stop;
		$new->stop;
		my $folder = "$tempdir/upgrade";
		mkdir $folder or die "$folder: $!";
		my $ok = IPC::Run::run([ "$bindir/pg_upgrade", '-b', $bindir, '-B', $bindir, '-d', $old->data_dir, '-D', $new->data_dir, '-s', $new->host, '-p', $old->port, '-P', $new->port ],
			'<', File::Spec->devnull, '>', \$out, '2>', \$err, init => sub { chdir $folder or die "$folder: $!" });
		ok($ok, 'pg_upgrade') or do { diag($out, $err); return };
		$new->start;
		goes_on($new, 'postgres', 'upgraded');
		$new->stop;
	}
	return;
}

##
## The ring

my $events = 'SELECT count(*) FROM dcounter.outbox';
my $bytes = q{SELECT sum(pg_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'dcounter.outbox'::regclass};
my $maintain = "SET statement_timeout = '30 s';\n" . "CALL dc_maintain();\n" x 3;

sub test_ring
{
	my ($node, $name) = @_;
	my $db = 'ring';
	my $run = sub { return sql($node, $db, $_[0]) };

	sql($node, 'postgres', 'CREATE DATABASE ring');
	$run->("CREATE EXTENSION dcounter; $functions");
	$run->(q{SELECT dc_consumer_create('fast'), dc_consumer_create('slow')});
	foreach my $i (1 .. 20)
	{
		$run->("SELECT publish('k$i'); CALL dc_maintain();");
		is($run->(q{SELECT take('fast')}), "k$i", "$name: event $i") if $i % 6 == 0 && $run->("SELECT take('fast', 5)");
	}
	is($run->("$maintain $events"), '20', "$name: a slow consumer keeps events");
	cmp_ok($run->('SELECT count(DISTINCT tableoid) FROM dcounter.outbox'), '>', 3, "$name: they are in several partitions");
	is($run->(q{SELECT take('slow', 10)}), join(' ', map { "k$_" } 1 .. 10), "$name: it is halfway");
	cmp_ok($run->("$maintain $events"), '<', 20, "$name: partitions that all have passed are truncated");
	is($run->(q{SELECT take('slow')}), join(' ', map { "k$_" } 11 .. 20), "$name: but none that it needs");
	is($run->("SELECT take('fast') IS NOT NULL; $maintain $events; $bytes"), "t\n0\n0", "$name: in the end all are");
	is($run->(q{SELECT take('fast') IS NULL, take('slow') IS NULL; SELECT publish('next'); SELECT take('fast'), take('slow')}), "t|t\n\nnext|next", "$name: both go on");

	# fetched, but not acknowledged; handed back; a transaction that spans a rotation
	is($run->("$maintain SELECT publish('u'); SELECT key FROM dc_fetch('slow'); SELECT take('fast'); $maintain $events; SELECT take('slow')"), "\nu\nu\n1\nu(2)", "$name: what is not acknowledged is kept");
	is($run->(q{SELECT publish('n'); SELECT take('fast'); SELECT seq FROM dc_fetch('slow') \gset} . "\nSELECT dc_nack('slow', :seq, '0'), dc_ack('slow', :seq);\n$maintain $events; SELECT take('slow')"), "\nn\nretry|\n0\nn(2)",
		"$name: what was handed back needs no partition");
	my $writer = dc_session($node, $db);
	$writer->run(q{BEGIN; SELECT publish('w')});
	$run->("$maintain SELECT publish('v'); $maintain");
	is($writer->run(q{COMMIT}), '', "$name: a transaction that was open while it rotated");
	is($run->("$maintain SELECT take('fast'), take('slow')"), 'v w|v w', "$name: its event is there");

	# an open transaction that has looked at the events, as pg_dump does
	my $reader = dc_session($node, $db);
	$reader->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM dcounter.outbox; LOCK dcounter.outbox, dcounter.outbox_ring IN ACCESS SHARE MODE');
	is($run->("$maintain SELECT publish('r1'); CALL dc_maintain(); SELECT publish('r2'); SELECT take('fast'), take('slow'); $maintain SELECT ($events) > 0"),
		"\n\nr1 r2|r1 r2\nt", "$name: a reader's lock keeps partitions, and holds up nobody");
	$reader->run('COMMIT');
	is($run->("$maintain $events"), '0', "$name: they are truncated after it");
	# one that writes
	$reader->run(q{BEGIN; LOCK dcounter.outbox_0, dcounter.outbox_1, dcounter.outbox_2, dcounter.outbox_3, dcounter.outbox_4, dcounter.outbox_5, dcounter.outbox_6, dcounter.outbox_7 IN SHARE UPDATE EXCLUSIVE MODE});
	is($run->("$maintain SELECT publish('l1'); $maintain SELECT take('fast'), take('slow');"), "\nl1|l1", "$name: so does that of VACUUM");
	$reader->run('COMMIT');
	$run->("BEGIN; SELECT publish('q'); PREPARE TRANSACTION 'q'");
	is($run->("$maintain SELECT publish('q2'); $maintain SELECT take('fast') IS NULL; COMMIT PREPARED 'q'; SELECT take('fast'), take('slow')"), "\nt\nq q2|q q2", "$name: and a prepared transaction");
	is($run->("$maintain $events"), '0', "$name: truncated in the end");

	# a consumer that is being moved or created keeps exactly what comes after its position, as if it were there
	$run->(q{SELECT dc_consumer_create('third')});
	$run->("SELECT publish('before'); $maintain SELECT publish('before 2'); $maintain SELECT take('third')");
	$reader->run(q{BEGIN; SELECT dc_seek('third', 'now')});
	$writer->run(q{BEGIN; SELECT dc_consumer_create('fourth', start => 'now')});
	is($run->("SELECT take('fast'), take('slow'); $maintain $events"), "before before 2|before before 2\n0", "$name: a position that is set in an open transaction does not keep what is before it");
	is($run->("SELECT publish('after'); $maintain SELECT publish('after 2'); $maintain SELECT take('fast'), take('slow'); $maintain $events"), "\n\nafter after 2|after after 2\n2", "$name: but what is after it");
	$reader->run('COMMIT');
	is($run->("SELECT take('third'); $maintain $events"), "after after 2\n2", "$name: the consumer gets that");
	$writer->run('COMMIT');
	is($run->("SELECT take('fourth'); $maintain $events"), "after after 2\n0", "$name: and so does the new one");
	$reader->run(q{BEGIN; SELECT dc_seek('third', 'now')});
	is($run->("SELECT publish('lost'); $maintain SELECT take('fast'), take('slow'), take('fourth') IS NOT NULL; $maintain $events"), "\nlost|lost|t\n1", "$name: kept");
	$reader->run('ROLLBACK');
	is($run->("SELECT take('third'); $maintain $events; SELECT dc_consumer_drop('third'), dc_consumer_drop('fourth')"), "lost\n0\n|", "$name: until the end of the transaction");
	$_->quit foreach $reader, $writer;

	# a consumer that does not come is cut off
	foreach my $how ('max_retention_size => 1', q{max_retention_age => '1 us'})
	{
		$run->("SELECT dc_consumer_alter('slow', $how)");
		$run->("SELECT publish('lost ' || i) FROM generate_series(1, 100) AS i; SELECT take('fast', 60), take('fast') IS NOT NULL; $maintain");
		is($run->($events), '0', "$name: with $how, a consumer does not keep events");
		my ($status, $out, $err) = $node->psql($db, "\\set VERBOSITY verbose\nSELECT count(*) FROM dc_fetch('slow')");
		like($err, qr/ERROR:  55000: consumer "slow" was cut off/, "$name: its next fetch fails");
		isnt($node->psql($db, q{SELECT count(*) FROM dc_fetch('slow')}), 0, "$name: and the next");
		is($run->(q{SELECT cut_off > 0 FROM dc_stat_consumers WHERE name = 'slow'; SELECT publish('later'); SELECT take('fast')}), "t\n\nlater", "$name: others are not concerned");
		is($run->(q{SELECT dc_seek('slow', 'beginning'); SELECT take('slow')}), "\nlater", "$name: dc_seek brings it back");
		is($run->(q{SELECT dc_consumer_alter('slow', max_retention_size => 0, max_retention_age => '0')} . ";$maintain SELECT publish('kept'); SELECT take('fast'); $maintain $events; SELECT take('slow')"), "\n\nkept\n1\nkept", "$name: without the limit it keeps them again");
	}

	# a dropped consumer needs nothing
	is($run->("SELECT publish('d'); SELECT take('fast'); SELECT dc_consumer_drop('slow'); $maintain $events"), "\nd\n\n0", "$name: a consumer that is dropped keeps nothing");
	is($run->("SELECT dc_consumer_drop('fast'); SELECT publish('nobody'); $maintain $events"), "\n\n0", "$name: without consumers events go");

	# events are kept as long as the setting says
	$run->(q{ALTER SYSTEM SET dcounter.outbox_keep = '1h'});
	$run->('SELECT pg_reload_conf()');
	wait_for($node, $db, 'SHOW dcounter.outbox_keep', '1h');
	is($run->("SELECT publish('k1'); $maintain $events; SELECT dc_consumer_create('late', start => 'beginning'); SELECT publish('k2'); SELECT take('late'); $maintain $events"), "\n1\n\n\nk1 k2\n2",
		"$name: they are kept for those who come later");
	$run->(q{ALTER SYSTEM RESET dcounter.outbox_keep});
	$run->('SELECT pg_reload_conf()');
	wait_for($node, $db, 'SHOW dcounter.outbox_keep', '0');
	is($run->("$maintain $events"), '0', "$name: as long as that");
	return;
}

##
## Dropping the extension

sub test_drop
{
	my ($node) = @_;
	my $session = dc_session($node, 'postgres');

	$session->run('CREATE DATABASE dropped');
	$session->quit;
	sql($node, 'dropped', "CREATE EXTENSION dcounter; $functions");
	sql($node, 'dropped', $consumers);
	$session = dc_session($node, 'dropped');
	is($session->run(q{SELECT publish('x'); SELECT take('all', 1)}), "\na3", 'a session that uses the outbox');
	fails_with($node, 'dropped', 'DROP EXTENSION dcounter', '2BP01', 'DROP EXTENSION: a trigger depends on it');
	sql($node, 'dropped', 'DROP EXTENSION dcounter CASCADE');
	is($session->run(q{INSERT INTO doc VALUES ('d9'); SELECT count(*) FROM doc}), '3', 'the table stays, without the trigger');
	is($session->run(q{SELECT publish('x')}), 'ERROR 42883', 'no function is left');
	is(sql($node, 'dropped', q{SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('dcounter')}), '0', 'nor a table');
	sql($node, 'dropped', 'DROP TABLE doc; CREATE EXTENSION dcounter');
	sql($node, 'dropped', $consumers);
	is($session->run(q{SELECT publish('y'); SELECT take('all', 1), take('all') ~ 'b9 y$'}), "\na3|t", 'created again, it works in that session, too');

	# events that a transaction has while another one drops the extension
	$session->run(q{BEGIN; SELECT publish('z')});
	my $dropper = dc_session($node, 'dropped');
	is($dropper->run(q{SET lock_timeout = '200ms'; DROP EXTENSION dcounter CASCADE}), 'ERROR 55P03', 'DROP EXTENSION waits for transactions with events');
	$session->run('COMMIT');
	is($dropper->run(q{SET lock_timeout = 0; DROP EXTENSION dcounter CASCADE}), '', 'and goes on when they have ended');
	$_->quit foreach $session, $dropper;
	return;
}

test_dump();
test_ring($target, 'plain');
test_crash($target, 'plain');
test_drop($target);
$target->stop;
test_ring($node, 'preload');
test_crash($node, 'preload');
$node->stop;
test_standby();
test_promotion();
test_upgrade();
done_testing();
