# Bound counters under load, with everything that changes rows of a source: inserts, deletes, moved
# keys, upserts, MERGE, COPY, cascades, savepoints, rollbacks, all isolation levels, prepared
# transactions, TRUNCATE, partitions that are attached and detached; beside builds, fixes and compaction; with
# kill -9. No check may ever see a difference. Before anything is built, the differences are
# the same in all snapshots. And what must show differences, does: a repair that sets instead of
# adding, and rows that were changed where triggers do not fire, until they are repaired.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $clients = torture(6, 12);
my $checks_wanted = torture(120, 1000);
my $posts = 40;

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my $node = dc_node('bound', conf => [
		"shared_preload_libraries = 'dcounter'", "dcounter.compact_interval = '50ms'", 'restart_after_crash = on', 'deadlock_timeout = 50ms',
		'autovacuum_naptime = 1s', 'max_pred_locks_per_transaction = 256' ]);
my @counters = ('like_n', 'like_sum', 'like_fans', 'page_n', 'page_visitors');

sql($node, 'postgres', $_) foreach qq{
	CREATE TABLE post (id int PRIMARY KEY);
	INSERT INTO post SELECT generate_series(1, $posts);
	CREATE TABLE likes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, slot int UNIQUE, post int REFERENCES post ON DELETE CASCADE,
		fan int, amount int, deleted bool NOT NULL DEFAULT false, note text);
	CREATE INDEX ON likes (post);
	CREATE TABLE visit (part int NOT NULL, page int, visitor int) PARTITION BY LIST (part);
	CREATE TABLE visit_1 PARTITION OF visit FOR VALUES IN (1);
	CREATE TABLE visit_2 PARTITION OF visit FOR VALUES IN (2);
	CREATE TABLE visit_3 PARTITION OF visit FOR VALUES IN (3);
	CREATE TABLE visit_4 PARTITION OF visit FOR VALUES IN (4);
	INSERT INTO likes (post, fan, amount) SELECT 1 + g % $posts, g % 23, g % 100 - 20 FROM generate_series(1, 3000) AS g;
	INSERT INTO visit SELECT 1 + g % 4, g % 50, g % 17 FROM generate_series(1, 2000) AS g;
}, q{
	SELECT dc_create('like_n'), dc_create('like_sum', totals => 'compacted'), dc_create('like_fans'), dc_create('page_n', partitions => 2), dc_create('page_visitors');
	SELECT dc_bind('like_n', 'likes', 'post', filter => 'NOT deleted', build => 'none');
	SELECT dc_bind('like_sum', 'likes', 'post, fan % 3', value => 'amount', build => 'none');
	SELECT dc_bind('like_fans', 'likes', 'post', distinct_of => 'fan', filter => 'NOT deleted', build => 'none');
	SELECT dc_bind('page_n', 'visit', 'page', build => 'none');
	SELECT dc_bind('page_visitors', 'visit', 'page', distinct_of => 'visitor', build => 'none');
}, q{
	-- both sides as SQL sees them, when nobody writes
	CREATE VIEW source_side AS
		SELECT 'like_n' AS counter, post::text AS key, count(*) AS n FROM likes WHERE NOT deleted GROUP BY 2
		UNION ALL SELECT 'like_sum', jsonb_build_array(post, fan % 3)::text, sum(amount) FROM likes WHERE post IS NOT NULL AND fan IS NOT NULL GROUP BY 2
		UNION ALL SELECT 'like_fans', post::text, count(DISTINCT fan) FROM likes WHERE NOT deleted GROUP BY 2
		UNION ALL SELECT 'page_n', page::text, count(*) FROM visit GROUP BY 2
		UNION ALL SELECT 'page_visitors', page::text, count(DISTINCT visitor) FROM visit GROUP BY 2;
	CREATE VIEW counter_side AS
		SELECT counter, key, sum(inc - dec) AS n FROM (SELECT 'like_n' AS counter, key, inc, dec FROM like_n UNION ALL SELECT 'like_n', key, inc, dec FROM like_n_shard
			UNION ALL SELECT 'like_sum', key, inc, dec FROM like_sum UNION ALL SELECT 'like_sum', key, inc, dec FROM like_sum_shard
			UNION ALL SELECT 'like_fans', key, inc, dec FROM like_fans UNION ALL SELECT 'like_fans', key, inc, dec FROM like_fans_shard
			UNION ALL SELECT 'page_n', key, inc, dec FROM page_n UNION ALL SELECT 'page_n', key, inc, dec FROM page_n_shard
			UNION ALL SELECT 'page_visitors', key, inc, dec FROM page_visitors UNION ALL SELECT 'page_visitors', key, inc, dec FROM page_visitors_shard) AS u GROUP BY 1, 2;
	CREATE VIEW differing AS
		SELECT counter, key, s.n AS source, c.n AS value FROM source_side AS s FULL JOIN counter_side AS c USING (counter, key) WHERE coalesce(s.n, 0) <> coalesce(c.n, 0);
	CREATE VIEW differing_refs AS
		SELECT key, item FROM (SELECT post::text AS key, fan::text AS item, count(*) AS n FROM likes WHERE NOT deleted AND post IS NOT NULL AND fan IS NOT NULL GROUP BY 1, 2) AS s
			FULL JOIN like_fans_ref AS r USING (key, item) WHERE s.n IS DISTINCT FROM r.n
		UNION ALL
		SELECT key, item FROM (SELECT page::text AS key, visitor::text AS item, count(*) AS n FROM visit WHERE page IS NOT NULL AND visitor IS NOT NULL GROUP BY 1, 2) AS s
			FULL JOIN page_visitors_ref AS r USING (key, item) WHERE s.n IS DISTINCT FROM r.n;

	-- a partition may be away
	CREATE FUNCTION visits(p int, n int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO visit SELECT p, random() * 50, random() * 17 FROM generate_series(1, n);
	EXCEPTION WHEN check_violation THEN
		EXECUTE format('INSERT INTO visit_%s SELECT %1$s, random() * 50, random() * 17 FROM generate_series(1, %s)', p, n);
	END $$;
	CREATE FUNCTION come_or_go(p int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		LOCK visit IN SHARE UPDATE EXCLUSIVE MODE;
		IF EXISTS (SELECT FROM pg_inherits WHERE inhrelid = format('visit_%s', p)::regclass) THEN
			EXECUTE format('ALTER TABLE visit DETACH PARTITION visit_%s', p);
		ELSE
			EXECUTE format('ALTER TABLE visit ATTACH PARTITION visit_%s FOR VALUES IN (%1$s)', p);
		END IF;
	END $$;
};

##
## The load

sub pick
{
	return $_[ rand @_ ];
}

sub num
{
	my ($from, $to) = @_;

	return $from + int(rand($to - $from + 1));
}

# Statements for the middle of any transaction. Some rows are in the way of others: deadlocks are
# part of it.
my @steps = (
	sub { sprintf "INSERT INTO likes (post, fan, amount) SELECT %d + g %% 3, random() * 23, random() * 100 FROM generate_series(1, %d) AS g;\n", num(1, $posts - 2), num(1, 8) },
	sub { sprintf "INSERT INTO likes (post, fan, amount) VALUES (%d, %d, %d);\n", num(1, $posts), num(1, 23), num(-50, 50) },
	sub { sprintf "DELETE FROM likes WHERE id IN (SELECT id FROM likes WHERE post = %d ORDER BY id LIMIT %d);\n", num(1, $posts), num(1, 8) },
	sub { sprintf "UPDATE likes SET post = %d WHERE post = %d AND fan %% 5 = %d;\n", num(1, $posts), num(1, $posts), num(0, 4) },
	sub { sprintf "UPDATE likes SET deleted = NOT deleted WHERE post = %d AND fan %% 7 = %d;\n", num(1, $posts), num(0, 6) },
	sub { sprintf "UPDATE likes SET fan = %s, amount = amount + %d WHERE post = %d AND fan %% 5 = 1;\n", pick('NULL', num(1, 23)), num(-3, 3), num(1, $posts) },
	sub { sprintf "UPDATE likes SET note = 'x' || %d WHERE post = %d;\n", num(1, 1000), num(1, $posts) },
	sub { sprintf "INSERT INTO likes (slot, post, fan, amount) VALUES (%d, %d, %d, 1) ON CONFLICT (slot) DO UPDATE SET post = excluded.post, amount = likes.amount + 1;\n", num(1, 60), num(1, $posts), num(1, 23) },
	sub { sprintf "INSERT INTO likes (slot, post, fan, amount) VALUES (%d, %d, %d, 1) ON CONFLICT (slot) DO NOTHING;\n", num(1, 60), num(1, $posts), num(1, 23) },
	sub { sprintf "MERGE INTO likes AS l USING (SELECT g, 1 + g %% $posts AS p FROM generate_series(%d, %d) AS g) AS s ON l.slot = s.g WHEN MATCHED AND l.fan %% 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET fan = l.fan + 1, post = s.p"
		  . " WHEN NOT MATCHED THEN INSERT (slot, post, fan, amount) VALUES (s.g, s.p, s.g %% 23, 2);\n", (num(1, 50)) x 2 },
	sub { "COPY likes (post, fan, amount) FROM stdin;\n" . join('', map { join("\t", num(1, $posts), num(1, 23), num(-9, 9)) . "\n" } 1 .. num(1, 20)) . "\\.\n" },
	sub { my $post = num(1, $posts); "DELETE FROM post WHERE id = $post;\nINSERT INTO post VALUES ($post) ON CONFLICT DO NOTHING;\n" },
	sub { sprintf "SELECT visits(%d, %d);\n", num(1, 4), num(1, 8) },
	sub { sprintf "UPDATE visit SET part = %d WHERE page = %d AND visitor %% 3 = %d;\n", num(1, 2), num(0, 50), num(0, 2) },
	sub { sprintf "UPDATE visit SET page = %d WHERE page = %d AND visitor %% 3 = %d;\n", num(0, 50), num(0, 50), num(0, 2) },
	sub { sprintf "DELETE FROM visit WHERE page = %d AND part = %d;\n", num(0, 50), num(1, 4) },
	sub { "SELECT dc_apply();\n" },
	sub { sprintf "SELECT dc_get('%s', '%d'), dc_sum('%s');\n", pick(@counters), num(1, $posts), pick(@counters) },
	sub { sprintf "SELECT pg_sleep(%.3f);\n", rand(0.02) });

# What is not as MVCC has it
my @heavy = (
	sub { "TRUNCATE likes;\nINSERT INTO likes (post, fan, amount) SELECT 1 + g % $posts, g % 23, g % 10 FROM generate_series(1, 200) AS g;\n" },
	sub { sprintf "TRUNCATE visit_%d;\nSELECT visits(3, 9);\n", num(1, 4) },
	sub { sprintf "SELECT come_or_go(%d);\n", num(3, 4) },
	sub { my $p = num(3, 4); "SELECT come_or_go($p);\nINSERT INTO visit_$p SELECT $p, g, g % 5 FROM generate_series(1, 9) AS g;\nSELECT come_or_go($p);\n" },
	sub { sprintf "SELECT count(*) FROM dc_source_fix('%s', '{1,2,3}');\n", pick(@counters) });

# transaction(NAME, HEAVY): its SQL
sub transaction
{
	my ($name, $heavy) = @_;
	my $sql = 'BEGIN ISOLATION LEVEL ' . pick(('READ COMMITTED') x 4, 'REPEATABLE READ', 'SERIALIZABLE') . ";\n";

	$sql .= "SET LOCAL dcounter.pending_memory = '64kB';\n" if rand() < 0.1;
	foreach my $i (1 .. num(1, 4))
	{
		my $step = rand() < $heavy ? pick(@heavy) : pick(@steps);

		$sql .= rand() < 0.25
		  ? "SAVEPOINT s$i;\n" . $step->() . pick(@steps)->() . pick("ROLLBACK TO s$i;\n", "RELEASE s$i;\n", '', "SELECT 1 / 0;\nROLLBACK TO s$i;\n") . pick(@steps)->()
		  : $step->();
	}
	return $sql . pick(("COMMIT;\n") x 8, "ROLLBACK;\n", "SELECT 1 / 0;\nCOMMIT;\n", "PREPARE TRANSACTION '$name';\nCOMMIT PREPARED '$name';\n", "PREPARE TRANSACTION '$name';\nROLLBACK PREPARED '$name';\n");
}

my @jobs;
my $round = 0;

# begin_load(HEAVY [, MORE...]): clients in the background
sub begin_load
{
	my ($heavy, @more) = @_;

	$round++;
	foreach my $client (1 .. $clients)
	{
		push @jobs, start_load(join('', map { transaction("$round.$client.$_", $heavy) } 1 .. 4000));
	}
	push @jobs, map { start_load($_ x 4000) } @more;
	return;
}

my $files = 0;

sub start_load
{
	my ($sql) = @_;

	return start_command('psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres') . ' application_name=load', '-f',
		file_of('load' . ++$files, "SET client_min_messages = warning;\nSET lock_timeout = '5s';\n$sql"));
}

# end_load(): ends them; a test that nothing has failed that should not
sub end_load
{
	my ($name) = @_;
	my %seen;
	my @bad;

	answer($node, 'postgres', q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'load'});
	foreach my $job (@jobs)
	{
		finish_job($job);
		while ($job->{err} =~ /(?:ERROR|FATAL):  (\w{5}): (.*)/g)
		{
			my ($state, $message) = ($1, $2);

			$seen{$state}++;
			# concurrency, our own 1 / 0, terminated, what follows; a prepared transaction that did
			# not come to be; a partition that is away; a post that is gone; a row twice in one MERGE
			# or that was there in an old snapshot
			next if $message =~ /is (?:already|not) a partition/;
			push @bad, "$state: $message" if $state !~ /^(?:40001|40P01|55P03|22012|57P01|57P02|57014|25P02|3B001|42704|42710|23514|23503|23505|21000)$/ && !($state eq '25001' && $message =~ /snapshot|READ COMMITTED/);
		}
		unlink map { "$job->{base}.$_" } 'out', 'err';
	}
	@jobs = ();
	# of clients that were ended in between, or servers
	sql($node, 'postgres', q{SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts \gexec});
	note("$name: ", join(', ', map { "$_: $seen{$_}" } sort keys %seen));
	is(join("\n", @bad > 10 ? @bad[ 0 .. 9 ] : @bad), '', "$name: no other errors than those of concurrency");
	return;
}

# at_rest(NAME): both sides agree as SQL sees them
sub at_rest
{
	my ($name) = @_;

	is(sql($node, 'postgres', 'SELECT * FROM differing ORDER BY 1, 2 LIMIT 10'), '', "$name: source and counters agree");
	is(sql($node, 'postgres', 'SELECT * FROM differing_refs ORDER BY 1, 2 LIMIT 10'), '', "$name: and so do the reference counts");
	return;
}

##
## Checks

my ($checked, $refused) = (0, 0);
my @drift;

# check(SESSION): all counters once, in one way or another
sub check
{
	my ($session) = @_;
	my $level = pick('READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');

	$session->run("BEGIN ISOLATION LEVEL $level READ ONLY");
	foreach my $counter (@counters)
	{
		my $args = pick('', '', ", keys => '{1,2,5,\"[3, 1]\"}'", ", from_key => '2'", ', sample => 0.5');
		my $answer = $session->run("SELECT string_agg(format('%s: %s %s', key, source, counter), ' ') FROM dc_source_check('$counter'$args)");

		if ($answer =~ /^ERROR/)
		{
			# 25001: TRUNCATE, ATTACH or DETACH since the snapshot
			push @drift, "$counter: $answer" if $answer !~ /^ERROR (?:25001|40001|40P01|25P02|55P03)/;
			$refused++;
			last;
		}
		push @drift, "$counter ($level$args): $answer" if $answer ne '';
		$checked++;
	}
	$session->run('ROLLBACK');
	return;
}

# check_for(N, NAME): so many checks; a test
sub check_for
{
	my ($n, $name) = @_;
	my $session = dc_session($node, 'postgres');
	my $end = $checked + $n;
	my $limit = time + 600;

	$session->run("SET statement_timeout = '180s'");
	check($session) while $checked < $end && time < $limit;
	$session->quit;
	is(join("\n", @drift > 5 ? @drift[ 0 .. 4 ] : @drift), '', "$name: $n checks, no difference");
	@drift = ();
	return;
}

##
## Before anything is built

begin_load(0);
my %differences;
foreach (1 .. 5)
{
	$differences{$_}{ sql($node, 'postgres', "SELECT md5(string_agg(key || ' ' || drift, ',' ORDER BY key)) FROM dc_source_check('$_')") }++ foreach 'like_n', 'like_sum', 'page_n';
	sleep(0.2);
}
is(join(' ', map { scalar keys %{ $differences{$_} } } sort keys %differences), '1 1 1', 'differences are the same in all snapshots, before they are built');

##
## Builds, which are cut off; then one of each to its end

foreach my $try (1 .. torture(3, 12))
{
	my @builds = map { start_command('psql', '-XAtq', '-d', $node->connstr('postgres') . ' application_name=build', '-c', "CALL dc_build('$_', 1)") } @counters;

	sleep(rand(0.4));
	if ($try % 3 == 2)
	{
		$node->kill9;
		finish_job($_) foreach @builds;
		restart_after_kill9($node);
		end_load("builds that are cut off, $try");
		begin_load(0);
		next;
	}
	answer($node, 'postgres', q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'build'});
	finish_job($_) foreach @builds;
}
# by two at once
my @builds = map { my $counter = $_; map { start_command('psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "CALL dc_build('$counter', $_)") } 3, 50 } @counters;
is(join(' ', map { finish_job($_) . $_->{err} } @builds), join(' ', (0) x @builds), 'all is built while writing goes on');
is(sql($node, 'postgres', "SELECT string_agg(DISTINCT state, ' ') FROM dcounter.source_state"), 'exact', 'and said to be exact');
check_for(20, 'after the builds');
end_load('builds');
at_rest('after the builds');

##
## Rounds of load with checks

my $rounds = torture(2, 8);
foreach my $n (1 .. $rounds)
{
	my $name = "round $n";

	begin_load(0.1, "CALL dc_maintain();\nSELECT pg_sleep(0.2);\n", join('', map { "CALL dc_build('$_', 20);\nSELECT pg_sleep(0.1);\n" } @counters));
	check_for(int(($checks_wanted - $checked) / 2 / ($rounds - $n + 1)) || 1, "$name, first half");
	if ($n % 2)
	{
		$node->kill9;
		restart_after_kill9($node);
		end_load("$name, kill -9");
		at_rest("$name, after kill -9");
		begin_load(0.1, "CALL dc_maintain();\nSELECT pg_sleep(0.2);\n");
	}
	check_for(int(($checks_wanted - $checked) / ($rounds - $n + 1)) || 1, "$name, second half");
	end_load($name);
	at_rest($name);
}
cmp_ok($checked, '>=', $checks_wanted, "$checked checks in all, of which $refused found their snapshot too old");

##
## Controls: what must show differences

# Like a counter cache: a trigger that adds, and a repair that sets the result of a count
sql($node, 'postgres', q{
	SELECT dc_create('by_hand');
	CREATE FUNCTION by_hand() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF TG_OP <> 'INSERT' AND OLD.post IS NOT NULL THEN PERFORM dc_decr('by_hand', OLD.post::text); END IF;
		IF TG_OP <> 'DELETE' AND NEW.post IS NOT NULL THEN PERFORM dc_incr('by_hand', NEW.post::text); END IF;
		RETURN NULL;
	END $$;
	CREATE TRIGGER by_hand AFTER INSERT OR UPDATE OR DELETE ON likes FOR EACH ROW EXECUTE FUNCTION by_hand();
	SELECT count(dc_set('by_hand', post::text, n)) FROM (SELECT post, count(*) AS n FROM likes WHERE post IS NOT NULL GROUP BY post) AS s});
my $by_hand = "SELECT count(*) FROM (SELECT post::text AS key, count(*) AS n FROM likes GROUP BY 1) AS s FULL JOIN (SELECT key, sum(inc - dec) AS n FROM (SELECT * FROM by_hand_shard UNION ALL SELECT key, 0, inc, dec, updated_at FROM by_hand) AS u GROUP BY key) AS c USING (key) WHERE coalesce(s.n, 0) <> coalesce(c.n, 0)";
is(sql($node, 'postgres', $by_hand), '0', 'a counter by hand agrees at first');
begin_load(0, join('', map { sprintf "SELECT dc_set('by_hand', '%d', (SELECT count(*) FROM likes, pg_sleep(0.005) WHERE post = %d));\n", $_, $_ } 1 .. $posts),
	join('', map { "SELECT count(*) FROM dc_source_fix('like_n', '{$_}');\n" } 1 .. $posts));
check_for(10, 'a repair that adds');
is(wait_for($node, 'postgres', "SELECT ($by_hand) > 0", 't', 180), 't', 'one that sets makes differences');
end_load('repairs');
at_rest('a repair that adds');
sql($node, 'postgres', q{DROP FUNCTION by_hand CASCADE; SELECT dc_drop('by_hand')});

# Writes without triggers. Builds and fixes repair them concurrently: a difference that one of them
# has added must not be added again by others that had read it before
foreach my $try (1 .. torture(3, 10))
{
	sql($node, 'postgres', q{
		SET session_replication_role = replica;
		DELETE FROM likes WHERE random() < 0.2;
		UPDATE likes SET fan = fan + 100 WHERE random() < 0.2;
		INSERT INTO likes (post, fan, amount) SELECT g % POSTS + 1, 99, 5 FROM generate_series(1, 3 * POSTS) AS g;
		INSERT INTO visit SELECT 1, g, g + random() * 100 FROM generate_series(1, 40) AS g} =~ s/POSTS/$posts/gr);
	my %found = map { $_ => sql($node, 'postgres', "SELECT count(*) > 0 FROM dc_source_check('$_')") } @counters;
	is(join(' ', map { "$_ $found{$_}" } @counters), join(' ', map { "$_ t" } @counters), 'rows that are changed where triggers do not fire are found');
	begin_load(0);
	# the builds have read the differences when those of half the keys are committed
	my $fix = dc_session($node, 'postgres');
	$fix->run(join(';', 'BEGIN', map { "SELECT count(*) FROM dc_source_fix('$_', (SELECT array_agg(key) FROM source_side WHERE counter = '$_' AND hashtext(key) % 2 = 0))" } @counters));
	my @repairs = map { start_command('psql', '-XAtq', '-d', $node->connstr('postgres') . ' application_name=build', '-c', "CALL dc_build('$_', 5)") } @counters;
	is(wait_for($node, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'build' AND wait_event = 'advisory'}, scalar @counters), scalar @counters, 'builds wait for fixes');
	$fix->run('COMMIT');
	$fix->quit;
	is(join(' ', map { finish_job($_) . $_->{err} } @repairs), join(' ', (0) x @repairs), 'and repaired while writing goes on');
	check_for(10, 'after that repair');
	end_load('that repair');
	at_rest('that repair');
}

$node->stop;
done_testing();
