# Bound counters, as far as only a whole server shows it: sessions that have not loaded the library when a
# command begins, dump and restore in every way, pg_upgrade, rows and TRUNCATE that arrive by a subscription,
# DETACH CONCURRENTLY that is killed.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tempdir = PostgreSQL::Test::Utils::tempdir();

my $create = q{
	CREATE TYPE mood AS ENUM ('sad', 'happy');
	CREATE TABLE likes (post int, mood mood, amount int) PARTITION BY LIST (post);
	CREATE TABLE likes_1 PARTITION OF likes FOR VALUES IN (1);
	CREATE TABLE likes_2 PARTITION OF likes FOR VALUES IN (2) PARTITION BY LIST (amount);
	CREATE TABLE likes_2d PARTITION OF likes_2 DEFAULT;
	CREATE TABLE likes_3 PARTITION OF likes FOR VALUES IN (3);
	CREATE TABLE visits (page text, who int);
	SELECT dc_create('n'), dc_create('total'), dc_create('people'), dc_create('sets');};
my $fill = q{
	INSERT INTO likes SELECT i % 3 + 1, CASE WHEN i % 2 = 0 THEN 'happy' ELSE 'sad' END::mood, i FROM generate_series(1, 100) AS i;
	INSERT INTO visits SELECT 'p' || i % 3, i % 7 FROM generate_series(1, 50) AS i;};
my $bind = q{
	SELECT dc_bind('n', 'likes', 'post', filter => 'mood = ''happy''', build => 'now');
	SELECT dc_bind('total', 'likes', 'mood = ''sad'', post', value => 'amount', build => 'now', replicated => true, on_detach => 'keep');
	SELECT dc_bind('people', 'visits', 'page', distinct_of => 'who', build => 'now');
	SELECT dc_bind('sets', 'likes', 'mood = ''happy'' AS happy, post', value => '1 AS n, amount', group_by => 'CUBE (happy, post)', build => 'now');};
my $states = q{
	SELECT counter, source, key, value, filter, distinct_of, refs, carried, build, replicated, on_detach, on_drift FROM dcounter.source ORDER BY counter::text COLLATE "C";
	SELECT counter, state, built_to FROM dcounter.source_state ORDER BY counter::text COLLATE "C";};
my $triggers = q{
	SELECT tgrelid::regclass, tgname, tgenabled, tgparentid <> 0, regexp_replace(pg_get_triggerdef(oid), '^.*( FOR EACH)', '\1') FROM pg_trigger
	WHERE tgname ~ '^dcounter_source' ORDER BY tgrelid::regclass::text COLLATE "C", tgname;};
my $values = q{
	SELECT 'n', k, dc_get('n', k) FROM unnest('{1,2,3}'::text[]) AS k UNION ALL SELECT 'people', k, dc_get('people', k) FROM unnest('{p0,p1,p2}'::text[]) AS k
	UNION ALL SELECT 'total', k, dc_get('total', k) FROM unnest(ARRAY['[true, 1]', '[false, 2]']) AS k
	UNION ALL SELECT 'sets', key::text, value FROM dc_scan('sets') ORDER BY 1, 2;};

# drift(NODE, DATABASE): what differs between sources and counters
sub drift
{
	my ($node, $database) = @_;

	return sql($node, $database, q{SELECT s.counter, d.* FROM dcounter.source AS s, dc_source_check(s.counter) AS d ORDER BY 1, 2});
}

# goes_on(NODE, DATABASE, NAME): bindings count on, each statement as the first of a session
sub goes_on
{
	my ($node, $database, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(drift($node, $database), '', "$name: no drift");
	foreach my $sql ($fill, 'TRUNCATE likes_1', q{UPDATE likes SET post = 1, mood = 'sad' WHERE post = 3 AND amount < 50}, q{DELETE FROM visits WHERE who = 3},
		'CREATE TABLE likes_4 (LIKE likes); INSERT INTO likes_4 SELECT 4, mood, amount FROM likes', 'ALTER TABLE likes ATTACH PARTITION likes_4 FOR VALUES IN (4)',
		'TRUNCATE likes_2', 'ALTER TABLE likes DETACH PARTITION likes_4', 'DROP TABLE likes_4', 'ALTER TABLE likes DETACH PARTITION likes_3 CONCURRENTLY',
		'ALTER TABLE likes ATTACH PARTITION likes_3 FOR VALUES IN (3)', 'ALTER TABLE likes RENAME COLUMN amount TO quantity',
		q{ALTER TYPE mood RENAME VALUE 'happy' TO 'glad'}, q{INSERT INTO likes SELECT 1, 'glad', i FROM generate_series(1, 5) AS i}, 'TRUNCATE visits, likes',
		q{ALTER TYPE mood RENAME VALUE 'glad' TO 'happy'}, 'ALTER TABLE likes RENAME COLUMN quantity TO amount', $fill)
	{
		sql($node, $database, $sql);
		is(drift($node, $database), '', "$name: no drift after " . substr($sql =~ s/\s+/ /gr, 0, 60));
	}
	fails_with($node, $database, 'DROP TABLE likes_3', '2BP01', "$name: a partition is not dropped");
	fails_with($node, $database, 'ALTER TABLE likes DROP COLUMN mood', '2BP01', "$name: nor a column");
	return;
}

my $node = dc_node('main', extension => 0, init => { allows_streaming => 'logical' }, conf => [ 'fsync = off', 'autovacuum = off' ]);

##
## Dump and restore

sql($node, 'postgres', 'CREATE DATABASE source');
sql($node, 'source', "CREATE EXTENSION dcounter; $create $fill $bind");
sql($node, 'source', q{ALTER TABLE likes DETACH PARTITION likes_3; ALTER TABLE likes ATTACH PARTITION likes_3 FOR VALUES IN (3); SELECT dc_compact(); INSERT INTO likes VALUES (1, 'sad', 3)});
my $expected = sql($node, 'source', "$states $triggers $values");
like($expected, qr/total_carried.*likes_2d\|dcounter_source_truncate\|A.*people\|p1\|7/s, 'there is something of everything');
is(drift($node, 'source'), '', 'source: no drift');

foreach my $how ('-Fp', '-Fc', '-Fp --inserts')
{
	my $name = 'copy_' . ($how =~ s/\W//gr =~ tr/A-Z/a-z/r);
	my $file = "$tempdir/$name";
	my @restore = $how eq '-Fc' ? ('pg_restore', '-j', '2', '--exit-on-error', '-d') : ('psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-d');

	$node->command_ok([ 'pg_dump', split(/ /, $how), '-f', $file, '-d', $node->connstr('source') ], "pg_dump $how");
	sql($node, 'postgres', "CREATE DATABASE $name TEMPLATE template0");
	$node->command_ok([ @restore, $node->connstr($name), ($how eq '-Fc' ? () : '-f'), $file ], "restore of $how");
	is(sql($node, $name, "$states $triggers $values"), $expected, "$how: all is there");
	goes_on($node, $name, $how);
}

# Once more what was restored, over itself. It first drops triggers and partitions by themselves, which is
# refused, and then the tables with all that.
$node->command_fails([ 'pg_restore', '--clean', '--if-exists', '-d', $node->connstr('copy_fc'), "$tempdir/copy_fc" ], 'pg_restore --clean');
is(sql($node, 'copy_fc', "$states $triggers $values"), $expected, '--clean: all is as dumped');
is(drift($node, 'copy_fc'), '', '--clean: no drift');

# The schema alone: triggers, but no binding
$node->command_ok([ 'pg_dump', '-s', '-f', "$tempdir/schema", '-d', $node->connstr('source') ], 'pg_dump -s');
foreach my $name ('empty', 'data', 'doubled')
{
	sql($node, 'postgres', "CREATE DATABASE $name TEMPLATE template0");
	$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-d', $node->connstr($name), '-f', "$tempdir/schema" ], 'restore of the schema');
}
is(sql($node, 'empty', $triggers), sql($node, 'source', $triggers), 'schema: the triggers are there');
my ($ret, $out, $err) = $node->psql('empty', "$fill INSERT INTO likes VALUES (1, 'sad', 3); TRUNCATE likes; SELECT count(*) FROM dcounter.source");
is($out, '0', 'schema: no binding');
is(() = $err =~ /WARNING/g, 1, 'schema: one warning a session');
like($err, qr/has triggers of bound counters, but no counter is bound/, '... that nothing is counted');
sql($node, 'empty', "SELECT dc_adopt('n'), dc_adopt('total'), dc_adopt('people'), dc_adopt('sets'); DROP TABLE people_ref, total_carried; $fill $bind");
is(sql($node, 'empty', $triggers), sql($node, 'source', $triggers), 'schema: dc_bind() makes the triggers what they have to be');
goes_on($node, 'empty', 'schema');

# The data alone, into that: without triggers it is right as it is
$node->command_ok([ 'pg_restore', '--data-only', '--disable-triggers', '--exit-on-error', '-d', $node->connstr('data'), "$tempdir/copy_fc" ], 'the data, triggers disabled');
is(sql($node, 'data', $values), sql($node, 'source', $values), 'data: values are there');
goes_on($node, 'data', 'data');
# With triggers the rows may be counted twice, and a build repairs that
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-d', $node->connstr('doubled'), '-c', 'SELECT 1' ], 'connects');
sql($node, 'doubled', "SELECT dc_adopt('n'), dc_adopt('total'), dc_adopt('people'), dc_adopt('sets'); DROP TABLE people_ref, total_carried; $bind $fill");
sql($node, 'doubled', q{SET session_replication_role = replica; INSERT INTO likes SELECT * FROM likes; INSERT INTO visits VALUES ('p0', 77)});
isnt(drift($node, 'doubled'), '', 'rows that were not counted: drift');
sql($node, 'doubled', "CALL dc_build('$_')") foreach 'n', 'total', 'people', 'sets';
goes_on($node, 'doubled', 'built');

##
## The extension goes, and comes back

sql($node, 'copy_fp', 'DROP EXTENSION dcounter');
is(sql($node, 'copy_fp', $triggers), '', 'without the extension: no triggers');
sql($node, 'copy_fp', $fill);
sql($node, 'copy_fp', "CREATE EXTENSION dcounter; SELECT dc_adopt('n'), dc_adopt('total'), dc_adopt('people'), dc_adopt('sets'); DROP TABLE people_ref, total_carried; $bind");
goes_on($node, 'copy_fp', 'extension');

##
## DETACH CONCURRENTLY, killed between its two transactions: what is written to the partition meanwhile counts until the end

foreach my $how ('terminate', 'kill')
{
	my $writer = dc_session($node, 'source');
	my $detacher = dc_session($node, 'source');

	$writer->run(q{BEGIN; INSERT INTO likes VALUES (1, 'happy', 1)});
	my $pid = $detacher->run('SELECT pg_backend_pid()');
	$detacher->send('ALTER TABLE likes DETACH PARTITION likes_1 CONCURRENTLY');
	is(wait_for($node, 'source', q{SELECT count(*) FROM pg_inherits WHERE inhdetachpending}, 1), 1, "$how: the first transaction is over");
	sql($node, 'source', q{INSERT INTO likes_1 VALUES (1, 'happy', 1), (1, 'sad', 5)});
	if ($how eq 'terminate')
	{
		sql($node, 'source', "SELECT pg_terminate_backend($pid, 60000)");
		$writer->run('COMMIT');
		$writer->quit;
	}
	else
	{
		$node->kill9;
		restart_after_kill9($node);
	}
	sql($node, 'source', q{DELETE FROM likes_1 WHERE amount = 1});
	sql($node, 'source', q{INSERT INTO likes VALUES (3, 'happy', 2)});
	sql($node, 'source', q{TRUNCATE likes_2});
	fails_with($node, 'source', q{SELECT * FROM dc_source_check('n')}, '55000', "$how: nothing to compare in between");
	fails_with($node, 'source', 'DROP TABLE likes_1', '2BP01', "$how: nor to be dropped");
	sql($node, 'source', 'ALTER TABLE likes DETACH PARTITION likes_1 FINALIZE');
	is(drift($node, 'source'), '', "$how: no drift in the end");
	is(sql($node, 'source', q{SELECT dc_get('n', '1')}), '0', "$how: the partition is subtracted");
	sql($node, 'source', q{INSERT INTO likes_1 VALUES (1, 'happy', 1)});
	is(drift($node, 'source'), '', "$how: and not counted any more");
	sql($node, 'source', 'ALTER TABLE likes ATTACH PARTITION likes_1 FOR VALUES IN (1)');
	goes_on($node, 'source', $how);
}

##
## Rows and TRUNCATE by a subscription: counted where the binding is replicated

my $subscriber = dc_node('subscriber', init => { allows_streaming => 'logical' }, conf => [ 'fsync = off', 'autovacuum = off' ]);
sql($node, 'postgres', 'CREATE DATABASE publisher');
sql($node, 'publisher', q{
	CREATE TYPE mood AS ENUM ('sad', 'happy');
	CREATE TABLE likes (post int, mood mood, amount int) PARTITION BY LIST (post);
	CREATE TABLE likes_1 PARTITION OF likes FOR VALUES IN (1);
	CREATE TABLE likes_2 PARTITION OF likes FOR VALUES IN (2) PARTITION BY LIST (amount);
	CREATE TABLE likes_2d PARTITION OF likes_2 DEFAULT;
	CREATE TABLE likes_3 PARTITION OF likes FOR VALUES IN (3);
	CREATE TABLE visits (page text, who int);
	ALTER TABLE likes_1 REPLICA IDENTITY FULL; ALTER TABLE likes_2d REPLICA IDENTITY FULL; ALTER TABLE likes_3 REPLICA IDENTITY FULL; ALTER TABLE visits REPLICA IDENTITY FULL;
	CREATE PUBLICATION p FOR TABLE likes, visits});
sql($subscriber, 'postgres', "$create SELECT dc_create('other');
	SELECT dc_bind('total', 'likes', 'post', value => 'amount', build => 'now', replicated => true);
	SELECT dc_bind('people', 'visits', 'page', distinct_of => 'who', build => 'now', replicated => true);
	SELECT dc_bind('sets', 'likes', 'mood = ''happy'', post', value => '1 AS n, amount', group_by => 'ROLLUP (1, 2)', build => 'now', replicated => true);
	SELECT dc_bind('other', 'likes', 'post', build => 'now');");
sql($subscriber, 'postgres', "CREATE SUBSCRIPTION s CONNECTION \$\$" . $node->connstr('publisher') . "\$\$ PUBLICATION p");
$subscriber->wait_for_subscription_sync($node, 's');
my $replicated = q{SELECT s.counter, d.key FROM dcounter.source AS s, dc_source_check(s.counter) AS d WHERE s.replicated};
foreach my $sql ($fill, q{UPDATE likes SET post = 1 WHERE post = 3 AND amount < 50}, q{DELETE FROM visits WHERE who = 3}, 'TRUNCATE likes_1', 'TRUNCATE likes_2', $fill, 'TRUNCATE likes, visits', $fill)
{
	sql($node, 'publisher', $sql);
	$node->wait_for_catchup('s');
	is(sql($subscriber, 'postgres', $replicated), '', 'replicated: no drift after ' . substr($sql =~ s/\s+/ /gr, 0, 60));
}
is(sql($subscriber, 'postgres', q{SELECT dc_sum('total') = (SELECT sum(amount) FROM likes), dc_sum('people') = (SELECT count(DISTINCT (page, who)) FROM visits), (SELECT string_agg(key::text || ' ' || value, ', ') FROM dc_scan('sets', '[null, null]')) = (SELECT format('[null, null, "amount"] %s, [null, null, "n"] %s', sum(amount), count(*)) FROM likes), dc_sum('other')}), 't|t|t|0', 'applied rows are counted where that was asked for, and only there');
sql($subscriber, 'postgres', q{DROP SUBSCRIPTION s});
$subscriber->stop;

##
## pg_upgrade

sub test_upgrade
{
	my $new = dc_node('new', extension => 0, conf => [ 'fsync = off', 'autovacuum = off' ]);
	my $old = dc_node('old', conf => [ 'fsync = off', 'autovacuum = off' ]);
	my $bindir = $old->config_data('--bindir');
	my ($out, $err) = ('', '');

	SKIP:
	{
		skip('no pg_upgrade', 1) if !-x "$bindir/pg_upgrade";
		sql($old, 'postgres', "$create $fill $bind ALTER TABLE likes DETACH PARTITION likes_3; ALTER TABLE likes ATTACH PARTITION likes_3 FOR VALUES IN (3); INSERT INTO likes VALUES (1, 'sad', 3)");
		my $expected = sql($old, 'postgres', "$states $triggers $values");
		$old->stop;
		$new->stop;
		my $folder = "$tempdir/upgrade";
		mkdir $folder or die "$folder: $!";
		my $ok = IPC::Run::run([ "$bindir/pg_upgrade", '-b', $bindir, '-B', $bindir, '-d', $old->data_dir, '-D', $new->data_dir, '-s', $new->host, '-p', $old->port, '-P', $new->port ],
			'<', File::Spec->devnull, '>', \$out, '2>', \$err, init => sub { chdir $folder or die "$folder: $!" });
		ok($ok, 'pg_upgrade') or do { diag($out, $err); return };
		$new->start;
		is(sql($new, 'postgres', "$states $triggers $values"), $expected, 'upgraded: all is there');
		goes_on($new, 'postgres', 'upgraded');
		$new->stop;
	}
	return;
}

test_upgrade();
$node->stop;
done_testing();
