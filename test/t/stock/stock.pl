# Stocks under load: nothing is sold twice, nothing is lost, and in the end all that
# is available can be sold, but no more. With the worker and the sold-out gate,
# which need preload, and without.
use strict;
use warnings;

use DcStock;
use DcTest;
use DcWorker 'step_failures';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $clients = torture(16, 64);
my $seconds = torture(3, 60);
my $sales = torture(5, 200);
my $last_units = torture(200, 1000);
my $cycles = torture(200, 3000);
my $limit = torture('180s', '300s');    # for all cycles; a stale mark lives for up to 1 s

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my $scripts = 0;
my %nodes = stock_nodes();
sql($_, 'postgres', q{
	CREATE TABLE stop ();

	-- Buys a key until it is refused three times in a row; if not steadily, it also
	-- changes its mind
	CREATE PROCEDURE buy_last(k text, steady boolean) LANGUAGE plpgsql AS $$
	DECLARE
		refused int := 0; x float; h uuid;
	BEGIN
		WHILE refused < 3 LOOP
			x := CASE WHEN steady THEN 1 ELSE random() END;
			refused := refused + 1;
			IF x < 0.15 THEN
				h := hold(k, 1, '1 hour');
				COMMIT;
				IF dc_hold_release('s', h, strict => false) = 'released' THEN
					refused := 0;
				END IF;
			ELSIF buy(k, 1) > 0 THEN
				refused := 0;
				IF x < 0.3 THEN
					ROLLBACK;
				END IF;
			END IF;
			COMMIT;
		END LOOP;
	END $$;

	-- A take is refused until a hold expires, and no longer. Nobody else is there.
	CREATE PROCEDURE expire_one(times int) LANGUAGE plpgsql AS $$
	DECLARE
		expiry timestamptz; refused bool;
	BEGIN
		FOR i IN 1 .. times LOOP
			PERFORM restock('gate', 1);
			PERFORM hold('gate', 1, '5 ms');
			COMMIT;
			refused := NOT dc_take('s', 'gate');
			COMMIT;
			SELECT max(expires_at) INTO expiry FROM s_hold WHERE key = 'gate';
			IF NOT refused AND clock_timestamp() < expiry THEN
				RAISE 'a hold expires too early';
			END IF;
			IF refused THEN
				PERFORM pg_sleep(extract(epoch FROM expiry - clock_timestamp()) + 0.0001);
				IF NOT dc_take('s', 'gate') THEN
					RAISE 'time %: refused although a hold has expired', i;
				END IF;
			END IF;
			INSERT INTO orders VALUES ('gate', 1);
			COMMIT;
		END LOOP;
	END $$;

	-- For when there are enough, whatever others do
	CREATE FUNCTION must_take(k text, n bigint) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF NOT dc_take('enough', k, n) THEN
			RAISE 'refused, although there are enough';
		END IF;
	END $$;

	-- Is refused nearly all the time
	CREATE PROCEDURE be_refused() LANGUAGE plpgsql AS $$
	BEGIN
		WHILE NOT EXISTS (SELECT FROM stop) LOOP
			IF buy('gate', 1, CASE WHEN random() < 0.5 THEN 'take' ELSE 'up to' END) > 0 AND random() < 0.3 THEN
				ROLLBACK;
			END IF;
			COMMIT;
		END LOOP;
	END $$;

	-- Gives a single unit in one way or another and sees it sold. Whoever waits for the
	-- others and is still refused must find it sold: that is no matter of time.
	CREATE PROCEDURE give_one(cycles int) LANGUAGE plpgsql AS $$
	DECLARE
		kind text; h uuid; tried boolean;
	BEGIN
		FOR i IN 1 .. cycles LOOP
			PERFORM dc_take('s', 'gate');    -- sold out, and known to be
			COMMIT;
			kind := (ARRAY['restock', 'release', 'expiry', 'part', 'own', 'incr', 'set', 'undone'])[1 + i % 8];
			IF kind IN ('release', 'expiry', 'part') THEN
				PERFORM restock('gate', CASE kind WHEN 'part' THEN 2 ELSE 1 END);
				h := dc_hold('s', 'gate', CASE kind WHEN 'part' THEN 2 ELSE 1 END, CASE kind WHEN 'expiry' THEN '3 ms' ELSE '1 hour' END::interval);
				COMMIT;
				IF h IS NULL THEN
					RAISE 'cycle %: no hold of what was added by the same transaction', i;
				END IF;
				PERFORM pg_sleep(0.003);
			END IF;
			IF kind = 'release' THEN
				PERFORM dc_hold_release('s', h, strict => false);
			ELSIF kind = 'part' THEN
				PERFORM confirm(h, 1);
			ELSIF kind = 'incr' THEN
				INSERT INTO restocks VALUES ('gate', 1);
				PERFORM dc_incr('s', 'gate');
			ELSIF kind = 'set' THEN
				INSERT INTO restocks VALUES ('gate', 1);
				PERFORM dc_set('s', 'gate', 1);
			ELSIF kind <> 'expiry' THEN
				PERFORM restock('gate', 1);
				IF kind = 'own' AND buy('gate', 1) <> 1 THEN
					RAISE 'cycle %: no sale of what was added by the same transaction', i;
				END IF;
			END IF;
			COMMIT;
			LOOP
				tried := i % 3 > 0 AND kind <> 'own';
				IF tried AND buy('gate', 1, 'wait') = 1 AND (kind = 'undone' OR random() < 0.2) THEN
					ROLLBACK;
					-- of a hold that has expired that undoes its end, too
					kind := CASE kind WHEN 'expiry' THEN kind ELSE 'restock' END;
					CONTINUE;
				END IF;
				COMMIT;
				EXIT WHEN (SELECT sum(qty) FROM orders WHERE key = 'gate') = (SELECT sum(qty) FROM restocks WHERE key = 'gate');
				-- a session that has ended the hold may still roll back
				IF tried AND kind <> 'expiry' THEN
					RAISE 'cycle %: refused, although one was left after %', i, kind;
				END IF;
				COMMIT;
				PERFORM pg_sleep(0.001);
			END LOOP;
		END LOOP;
	END $$;}) foreach values %nodes;

my $reader = script('REPEATABLE READ', q{
	SELECT check_snapshot() AS seen \gset
	\sleep 10 ms
	SELECT 1 / (check_snapshot() = ':seen')::int;} =~ s/^\t+//mgr);

# no_error_in_log(NAME): except for what REPEATABLE READ, SERIALIZABLE and autovacuum may always say
sub no_error_in_log
{
	my ($name) = @_;

	is(join("\n", grep { /ERROR|FATAL|PANIC|WARNING/ && !/could not serialize access|canceling autovacuum task/ } split(/\n/, slurp_file($nodes{$name}->logfile))),
		'', "$name: no error in the log, no deadlock");
	is(step_failures($nodes{$name}), '', "$name: no step of the worker failed")
	  if $name eq 'preload';
	return;
}

# all_ends(NODE, NAME): holds end in each way. On a slow machine it takes more than the load's time until each was
# thrown; what is never seen ends the loop, too.
sub all_ends
{
	my ($node, $name) = @_;
	my $all = 'confirmed expired released';
	my $ends = q{SELECT string_agg(DISTINCT state, ' ' ORDER BY state) FROM s_hold WHERE state <> 'open'};

	for (my $turn = 0; $turn < 60 && sql($node, 'postgres', $ends) ne $all; $turn++)
	{
		my $load = load_for($node, 1, $clients);
		is(finish_job($load) . " $load->{err}", '0 ', "$name: more load");
	}
	is(sql($node, 'postgres', $ends), $all, "$name: holds have ended in all ways");
	return;
}

sub test_load
{
	my ($name) = @_;
	my $node = $nodes{$name};

	sql($node, 'postgres', q{SELECT restock('k' || i, 100) FROM generate_series(1, 60) AS i});
	my $load = load_for($node, $seconds, $clients);
	my $read = pgbench($node, '-c', 2, '-t', 10 * $seconds, '-f', $reader);

	is(finish_job($load) . " $load->{err}", '0 ', "$name: load");
	like($load->{out}, qr/actually processed: [1-9].*number of deadlock failures: 0 /s, "$name: no deadlock");
	note("$name: $1") if $load->{out} =~ /(actually processed: \d+.*?number of serialization failures: \d+)/s;
	is(finish_job($read) . " $read->{err}", '0 ', "$name: every snapshot is right");
	like($read->{out}, qr/actually processed: [1-9]\d.*number of failed transactions: 0 /s, "$name: some were looked at");
	all_ends($node, $name);
	all_sold($node, "$name load");
	no_error_in_log($name);
	return;
}

# The last units of a key, until all clients are refused
sub test_last_units
{
	my ($name) = @_;
	my $node = $nodes{$name};

	foreach my $sale (1 .. $sales)
	{
		my $key = "last $sale";
		my $steady = $sale % 2 ? 'true' : 'false';
		my $script = file_of('last.sql', "CALL buy_last('$key', $steady);\n");

		sql($node, 'postgres', "SELECT restock('$key', $last_units)");
		my $job = pgbench($node, '-c', $clients, '-t', 1, '-f', $script);
		is(finish_job($job) . " $job->{err}", '0 ', "$name: $key: clients");
		is(sql($node, 'postgres', qq{
			SELECT sum(qty), dc_get('s', '$key'), dc_take('s', '$key') FROM orders WHERE key = '$key';
			SELECT wrong();}), "$last_units|0|f", "$name: $key: all are sold, and no more");
	}
	no_error_in_log($name);
	return;
}

# Each client brings as many units as it then takes. So there are always enough, and
# nobody may be refused, whatever moves between rows meanwhile.
sub test_enough
{
	my ($name) = @_;
	my $node = $nodes{$name};
	my $give = "\\set n random(1, 9)\nSELECT dc_restock('enough', 'k', :n);\n";
	my $take = "SELECT must_take('k', :n);\n";
	# other keys make a compaction last
	my $move = file_of('move.sql', "SELECT count(dc_restock('enough', 'other ' || i, 1)) FROM generate_series(1, 150) AS i;\nSELECT dc_compact('enough');\n"
		  . "SELECT sum(dc_take_up_to('enough', 'other ' || i, 9)) FROM generate_series(1, 150) AS i;\nSELECT dc_compact('enough');\n");
	my @takers = map { file_of('enough' . ++$scripts . '.sql', "$give$_$take") } (
		'', "BEGIN;\n${take}ROLLBACK;\n",
		"SELECT dc_hold('enough', 'k', :n) AS h \\gset\nSELECT 1 / (dc_hold_release('enough', ':h') = 'released')::int;\n");

	sql($node, 'postgres', q{SELECT dc_stock_create('enough', 16)});
	my $movers = pgbench($node, '-c', 1, '-T', $seconds, '-f', $move);
	my $job = pgbench($node, '-c', $clients, '-T', $seconds, map { ('-f', $_) } @takers);
	is(finish_job($job) . " $job->{err}", '0 ', "$name: none is refused while there are enough");
	note("$name: $1") if $job->{out} =~ /(actually processed: \d+)/;
	is(finish_job($movers) . " $movers->{err}", '0 ', "$name: while units are moved");
	is(sql($node, 'postgres', q{SELECT dc_get('enough', 'k'), dc_take('enough', 'k')}), '0|f', "$name: and no more than enough");

	# Single units, of which compaction makes more rows
	sql($node, 'postgres', "SELECT restock('few', 1);\n" x 51 . "SELECT dc_compact('s') FROM generate_series(1, 3);");
	is(sql($node, 'postgres', q{SELECT count(*) > 1, sum(units) FROM s_shard WHERE key = 'few' AND units > 0; SELECT wrong();}), 't|51', "$name: units are spread, and none is lost");
	no_error_in_log($name);
	return;
}

# Carts in all orders, of keys that have one row each: they wait for each other, but
# not in a circle.
sub test_carts
{
	my ($name) = @_;
	my $node = $nodes{$name};
	my @carts = map { file_of('cart' . ++$scripts . '.sql', "SELECT 1 / dc_take_all('narrow', '{$_}', '{1,1,1}')::int;\n") }
	  'a,b,c', 'c,b,a', 'b,a,c';

	sql($node, 'postgres', q{SELECT dc_stock_create('narrow', 1); SELECT dc_restock('narrow', k, 1000000) FROM unnest('{a,b,c}'::text[]) AS k});
	my $job = pgbench($node, '-c', 6, '-T', $seconds / 3, map { ('-f', $_) } @carts);
	is(finish_job($job) . " $job->{err}", '0 ', "$name: carts in all orders");
	my ($n) = $job->{out} =~ /actually processed: (\d+)\n.*failed transactions: 0 /s;
	my $left = 1000000 - ($n // 0);
	is(sql($node, 'postgres', q{SELECT dc_get('narrow', 'a'), dc_get('narrow', 'b'), dc_get('narrow', 'c')}), "$left|$left|$left", "$name: all of them, each once");
	return;
}

# Single units and their ways back
sub test_gate
{
	my ($name) = @_;
	my $node = $nodes{$name};

	sql($node, 'postgres', 'SELECT dc_worker_stop()') if $name eq 'preload';
	is($node->psql('postgres', 'CALL expire_one(50)'), 0, "$name: a hold that expires can be taken at once");
	sql($node, 'postgres', 'SELECT dc_worker_start()') if $name eq 'preload';
	is(sql($node, 'postgres', 'SELECT wrong()'), '', "$name: and only once");

	# Refusals in a transaction that is undone mark nothing
	sql($node, 'postgres', q{SELECT restock('gate', 3)});
	foreach my $change ("dc_reset('s', 'gate')", "dc_delete('s', 'gate')", "dc_set('s', 'gate', 0)", "buy('gate', 3)", "hold('gate', 3, '1 hour')")
	{
		is(sql($node, 'postgres', qq{
			BEGIN; SELECT count($change); SELECT dc_take('s', 'gate'); ROLLBACK;
			BEGIN; SELECT dc_take('s', 'gate', 3), dc_take('s', 'gate'); ROLLBACK}), "1\nf\nt|f", "$name: $change undone");
	}
	is(sql($node, 'postgres', q{SELECT buy('gate', 3)}), '3', "$name: they are all there");

	my $refused = pgbench($node, '-c', 5, '-t', 1, '-f', file_of('refused.sql', "CALL be_refused();\n"));
	my $session = dc_session($node, 'postgres');

	$session->run("SET statement_timeout = '$limit'");
	$session->send("CALL give_one($cycles)");
	is($session->wait, '', "$name: $cycles times a single unit is sold soon after it was given back");
	$session->quit;
	sql($node, 'postgres', 'INSERT INTO stop DEFAULT VALUES');
	is(finish_job($refused) . " $refused->{err}", '0 ', "$name: while others are refused");
	sql($node, 'postgres', 'TRUNCATE stop');
	is(sql($node, 'postgres', 'SELECT wrong()'), '', "$name: the books are right");
	no_error_in_log($name);
	return;
}

foreach my $name ('preload', 'plain')
{
	test_load($name);
	test_last_units($name);
	test_enough($name);
	test_carts($name);
	test_gate($name);
}
$_->stop foreach values %nodes;
done_testing();
