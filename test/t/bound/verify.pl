# The worker verifies bound counters: rows that no trigger has seen are found, and repaired if
# asked, while writing continues; within its budget, over restarts; and leaves alone what it should.
use strict;
use warnings;

use DcTest;
use DcWorker;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = dc_node('main', conf => [ worker_conf(), "shared_preload_libraries = 'dcounter'", "dcounter.verify_rate = 1000000" ]);

# q(SQL): its output
sub q
{
	return sql($node, 'postgres', $_[0]);
}

# unseen(SQL): changes of rows that no trigger sees
sub unseen
{
	return main::q("SET session_replication_role = replica; $_[0]");
}

# stat(COLUMNS, COUNTER)
sub stat
{
	return main::q("SELECT $_[0] FROM dc_stat_drift WHERE counter = '$_[1]'::regclass");
}

# passes(COUNTER, N, NAME): N more passes, of which the first begins now
sub passes
{
	my ($counter, $n, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $passes = main::stat('passes', $counter);

	# a pass that was under way continues; settings that are set make the next one due
	foreach my $i (1 .. $n + 1)
	{
		my $reached = $passes + $i;

		main::q("SELECT dc_alter('$counter', max_shards => 64)");
		soon($node, 'postgres', "SELECT passes >= $reached FROM dc_stat_drift WHERE counter = '$counter'::regclass", 't', "$name: pass $i");
	}
	return;
}

main::q(q{
	CREATE TABLE likes (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, post int, fan int, deleted bool NOT NULL DEFAULT false);
	CREATE INDEX ON likes (post);
	INSERT INTO likes (post, fan) SELECT i % 3000, i FROM generate_series(1, 15000) AS i;
	SELECT dc_create('n'), dc_create('s');
	SELECT dc_bind('n', 'likes', key => 'post', filter => 'NOT deleted'), dc_bind('s', 'likes', key => 'post', value => 'fan % 7 - 3')});
soon($node, 'postgres', "SELECT string_agg(DISTINCT state, ' ') FROM dc_stat_drift", 'exact', 'the worker has built them');
soon($node, 'postgres', 'SELECT min(passes) > 0 FROM dc_stat_drift', 't', 'and verified them');
is(main::stat('drifted_keys, keys_checked >= 3000, rows_checked >= 15000', 'n'), '0|t|t', 'all keys');

#
# Drift, while writing goes on
#
main::q('CREATE TABLE stop ()');
my $writer = file_of('writer.sql', q{
	DO $$
	BEGIN
		FOR i IN 1 .. 1000000 LOOP
			INSERT INTO likes (post, fan) SELECT 3000 * random(), i FROM generate_series(1, 3);
			UPDATE likes SET post = 3000 * random() WHERE id = (15000 * random())::int;
			UPDATE likes SET deleted = NOT deleted WHERE id = (15000 * random())::int;
			DELETE FROM likes WHERE id = (15000 + i);
			IF i % 10 = 0 THEN
				BEGIN
					INSERT INTO likes (post, fan) VALUES (i % 3000, i);
					RAISE division_by_zero;
				EXCEPTION WHEN division_by_zero THEN
				END;
			END IF;
			COMMIT;
			EXIT WHEN to_regclass('stop') IS NULL;
		END LOOP;
	END $$;});
my @writers = map { start_job($node, 'postgres', $writer) } 1 .. 3;
my $listener = dc_session($node, 'postgres');
my $offset = -s $node->logfile;
$listener->run('LISTEN dcounter_drift');
passes('n', 3, 'writing goes on');
is(main::q('SELECT sum(drifted_keys), count(*) FROM dc_stat_drift'), '0|2', 'what is written is no drift');

unseen(q{INSERT INTO likes (post, fan) VALUES (77777, 1), (77777, 2), (88888, 3)});
# deleted: those of five keys, of before. The lock keeps writers from changing them meanwhile
my $gone = unseen(q{WITH l AS MATERIALIZED (SELECT id FROM unnest('{100, 200, 300, 400, 500}'::int[]) AS p, LATERAL (SELECT id FROM likes WHERE NOT deleted AND post = p ORDER BY id LIMIT 1 FOR UPDATE) AS one),
	d AS (DELETE FROM likes USING l WHERE likes.id = l.id RETURNING post) SELECT string_agg(post::text, ' ' ORDER BY post) FROM d});
is($gone, '100 200 300 400 500', 'rows are gone');
passes('n', 1, 'with drift');
is(main::q("SELECT key, drift, repaired FROM dc_drifts WHERE counter = 'n'::regclass ORDER BY length(key), key"),
	join("\n", (map { "$_|-1|f" } 100, 200, 300, 400, 500), '77777|2|f', '88888|1|f'), 'all of it is found, and nothing else');
is(main::stat('state, drifted_keys, drift_sum, repaired, last_drift_at <= last_pass', 'n'), 'drifted|7|8|0|t', 'the view');
is(main::q("SELECT string_agg(aggregateid, ' ' ORDER BY length(aggregateid), aggregateid) FROM dcounter.outbox WHERE type = 'counter.drift' AND aggregatetype = 'n'"),
	'100 200 300 400 500 77777 88888', 'events');
like($listener->run('SELECT 1'), qr/^Asynchronous notification "dcounter_drift" with payload "public\.n" received/m, 'a notification');
passes('n', 2, 'again');
is(main::stat('drifted_keys', 'n'), '7', 'what is known is not counted again');
is(main::q("SELECT count(*) FROM dcounter.outbox WHERE type = 'counter.drift' AND aggregatetype = 'n'"), '7', 'nor told');
my @warnings = log_since($node, $offset) =~ /WARNING:  counter table public\.n differed from its source public\.likes\n/g;
cmp_ok(scalar @warnings, '>=', 1, 'a warning');
cmp_ok(scalar @warnings, '<=', main::stat('passes', 'n'), 'one for a pass');
like(log_since($node, $offset), qr/DETAIL:  7 keys differed, and 0 of them were repaired\./, 'with counts');

main::q(q{SELECT dc_alter('n', on_drift => 'repair'), dc_alter('s', on_drift => 'repair')});
soon($node, 'postgres', "SELECT string_agg(DISTINCT state, ' ') FROM dc_stat_drift", 'exact', 'repaired while writing goes on');
is(main::q("SELECT count(*) FROM dc_source_check('n')"), '0', 'nothing differs');
is(main::q("SELECT count(*) FROM dc_source_check('s')"), '0', 'nor in the other');
is(main::stat('drifted_keys, repaired', 'n'), '7|7', 'seven keys were repaired');
is(main::q("SELECT count(*), sum(drift) FROM dc_drifts WHERE counter = 'n'::regclass AND repaired"), '7|-2', 'which are in the view');
# with drift all the time
foreach my $i (1 .. 5)
{
	unseen("INSERT INTO likes (post, fan) SELECT 3000 * random(), $i FROM generate_series(1, 20)");
	passes('n', 1, "drift $i");
}
passes($_, 1, 'last') foreach 'n', 's';
is(main::q("SELECT count(*) FROM dc_source_check('n')") . main::q("SELECT count(*) FROM dc_source_check('s')"), '00', 'nothing differs while writing goes on');
main::q('DROP TABLE stop');
is(finish_job($_), 0, 'a writer') foreach @writers;
is(main::q("SELECT count(*) FROM dc_source_check('n')") . main::q("SELECT count(*) FROM dc_source_check('s')"), '00', 'nor after it');
is(main::q("SELECT sum(dc_get('n', key)) FROM n"), main::q('SELECT count(*) FROM likes WHERE NOT deleted'), 'all rows count');
is(worker_failures(log_since($node, $offset)), '', 'no step has failed');
$listener->quit;

#
# Budget, restarts
#
main::q(q{SELECT dc_unbind('s')});
passes('n', 1, 'before');
set_conf($node, 'dcounter.verify_rate' => 500);
my ($passes, $keys) = split /\|/, main::stat('passes, keys_checked', 'n');
my $began = time;
my $rows = main::stat('rows_checked', 'n');
main::q(q{SELECT dc_alter('n', on_drift => 'alarm')});
my $position = q{SELECT coalesce(substring(pass_to FROM '^1:.*:(\d+)$'), '') FROM dcounter.source_state};
isnt(wait_for($node, 'postgres', "SELECT ($position) <> ''", 't', $limit), '', 'a pass is under way');
sleep(4);
$rows = main::stat('rows_checked', 'n') - $rows;
cmp_ok($rows, '>', 0, 'it goes on');
# a step reads 500 rows, and the others of one key
cmp_ok($rows, '<=', 500 * (time - $began) + 1000, 'within the budget');
my $at = main::q($position);
isnt($at, '', 'it is in the middle');
main::q('CREATE TABLE flushed ()');    # the worker's commits are asynchronous: this one has them on disk
$node->stop('immediate');
$node->start;
is(main::q("SELECT ($position) COLLATE \"C\" >= '$at'"), 't', 'and still is after a crash');
is(main::stat('passes', 'n'), $passes, 'the same pass');
set_conf($node, 'dcounter.verify_rate' => 1000000);
soon($node, 'postgres', "SELECT passes = $passes + 1 FROM dc_stat_drift", 't', 'it ends');
$keys = main::stat('keys_checked', 'n') - $keys;
my $all = main::q('SELECT count(*) FROM n');
cmp_ok($keys, '<=', $all + 1100, "not all keys were compared again: $keys of $all");
cmp_ok($keys, '>=', $all, 'but each once');

# off
set_conf($node, 'dcounter.verify_rate' => 0);
sleep(2);    # a step that was under way
$passes = main::stat('passes', 'n');
main::q(q{SELECT dc_alter('n', on_drift => 'alarm')});
sleep(3);
is(main::stat('passes', 'n'), $passes, 'no budget, no pass');
main::q('CALL dc_maintain()');
is(main::stat('passes', 'n'), $passes, 'nor by a call');

#
# What it leaves alone
#
set_conf($node, 'dcounter.verify_max_rows' => 500, 'dcounter.verify_rate' => 1000000);
unseen('INSERT INTO likes (post, fan) SELECT p, 1 FROM unnest(ARRAY[1111, 1111, 2222]) AS p, generate_series(1, 400)');
passes('n', 1, 'a key with many rows');
is(main::q('SELECT key, drift FROM dc_drifts WHERE NOT repaired AND at > (SELECT max(at) FROM dc_drifts WHERE repaired)'), '2222|400', 'is left out, and others are not');
is(main::q(q{SELECT key, drift FROM dc_source_fix('n', '{1111,2222}') ORDER BY key}), "1111|800\n2222|400", 'a call repairs both');
passes('n', 1, 'a key that is known to have many rows');
is(main::stat('state', 'n'), 'drifted', 'does not let a pass be complete');
set_conf($node, 'dcounter.verify_max_rows' => 2000);
passes('n', 1, 'with a higher limit');
is(main::stat('state', 'n'), 'exact', 'it is');
# without an index
main::q('CREATE TABLE small (k int); CREATE TABLE large (k int); INSERT INTO large SELECT g % 3 FROM generate_series(1, 5000) AS g; ANALYZE large');
main::q(qq{SELECT dc_create('${_}_n'); SELECT dc_bind('${_}_n', '$_', key => 'k', build => 'now')}) foreach 'small', 'large';
unseen("INSERT INTO $_ VALUES (1)") foreach 'small', 'large';
# a pass may have been over before that
passes('small_n', 1, 'a new pass');
soon($node, 'postgres', "SELECT state FROM dc_stat_drift WHERE counter = 'small_n'::regclass", 'drifted', 'a small source is scanned');
passes('small_n', 1, 'and again');
is(main::stat('state, passes, last_pass', 'large_n'), 'exact|0|', 'a large one is not');
main::q('CREATE INDEX ON large (k)');
main::q(q{SELECT dc_alter('large_n', on_drift => 'alarm')});
soon($node, 'postgres', "SELECT passes > 0 FROM dc_stat_drift WHERE counter = 'large_n'::regclass", 't', 'but with an index');
# an expression that may take long
$offset = -s $node->logfile;
main::q(q{
	CREATE ROLE alice; CREATE SCHEMA a AUTHORIZATION alice; SET ROLE alice;
	CREATE TABLE a.item (name text);
	SELECT dc_create('a.n');
	SELECT dc_bind('a.n', 'a.item', key => 'left(repeat(name, 3), 10)', build => 'now')});
logged($node, $offset, qr/dcounter worker leaves counter table "n" to its owner\n.*Code of the owner could run: an expression of its binding\./, 'is left to the owner');
soon($node, 'postgres', q{SELECT tables_left FROM dc_stat_worker WHERE job = 'verify' AND datname = 'postgres'}, '1', 'which the view shows');
is(main::stat('passes', 'a.n'), '0', 'the worker has not verified it');
unseen(q{INSERT INTO a.item VALUES ('x')});
main::q('SET ROLE alice; SET client_min_messages = error; CALL dc_maintain()');
is(main::stat('state, passes', 'a.n'), 'drifted|1', 'its owner has');
# locks of others do not keep it from other tables
my $locker = dc_session($node, 'postgres');
$locker->run('BEGIN');
$locker->run('LOCK TABLE likes IN ACCESS EXCLUSIVE MODE');
passes('small_n', 1, 'beside a table that is locked');
$locker->run('ROLLBACK');
$locker->quit;
passes('n', 1, 'which is verified when it can be');

#
# Marks of a buffered table that is in use: exact for the moment that the mark takes
#
main::q(q{SELECT dc_create('views', mode => 'buffered')});
foreach my $refused ([ q{SELECT dc_bind('views', 'likes', 'post')}, qr/"views" is buffered/ ], [ q{SELECT dc_alter('n', mode => 'buffered')}, qr/"n" cannot be buffered/ ])
{
	my (undef, undef, $error) = $node->psql('postgres', $refused->[0]);

	like($error, $refused->[1], "no counter is bound and buffered: $refused->[0]");
}
main::q('CREATE TABLE stop ()');
my $counting = file_of('counting.sql', q{
	DO $$
	BEGIN
		FOR i IN 1 .. 1000000 LOOP
			PERFORM dc_incr('views', i % 7);
			COMMIT;
			EXIT WHEN to_regclass('stop') IS NULL;
		END LOOP;
	END $$;});
@writers = map { start_job($node, 'postgres', $counting) } 1 .. 2;
wait_for($node, 'postgres', q{SELECT dc_sum('views') > 100}, 't');
my $added = 0;
foreach my $i (1 .. 5)
{
	my $mark = sql($node, 'postgres', qq{
		BEGIN;
		SELECT dc_alter('views', mode => 'exact');
		SELECT dc_mark('views', 'm$i');
		SELECT (SELECT sum(value) FROM dcounter.mark_value WHERE mark = 'm$i') = dc_sum('views');
		SELECT dc_alter('views', mode => 'buffered');
		COMMIT});
	is($mark, "\n7\nt\n", "mark $i has all that was committed");
	$added += main::q(qq{SELECT sum(r.delta) FROM (SELECT array_agg(key) AS keys, array_agg(value + 1000) AS exact FROM dcounter.mark_value WHERE mark = 'm$i') AS m, dc_reconcile('views', m.keys, m.exact, 'm$i') AS r});
}
main::q('DROP TABLE stop');
is(finish_job($_), 0, 'a session that counts') foreach @writers;
is($added, 5 * 7 * 1000, 'what was added');
is(main::q(qq{SELECT count(*) FROM generate_series(1, 5) AS i, dc_reconcile('views', ARRAY['1'], ARRAY[(SELECT exact FROM dcounter.mark_value WHERE mark = 'm' || i AND key = '1')], 'm' || i) AS r WHERE delta = 0}), '5', 'once');

is(worker_failures(log_since($node, $offset)), '', 'no step has failed');
$node->stop;
done_testing();
