# Shared by the tests of stocks: a stock "s" whose every sale and restock is also a row
# of an ordinary table, written by the same transaction. So in each snapshot, for
# each key, restocked = sold + held + available.
package DcStock;

use strict;
use warnings;

use DcTest;
use Exporter 'import';
use Test::More;

our @EXPORT = qw(stock_nodes pgbench load_for all_sold script);

my $schema = q{
	SELECT dc_stock_create('s', 16);
	CREATE TABLE orders (key text, qty bigint, hold uuid, client text, number int);
	CREATE TABLE restocks (key text, qty bigint, client text, number int);
	CREATE INDEX ON orders (key);
	CREATE INDEX ON restocks (key);

	CREATE FUNCTION restock(k text, n bigint, c text = NULL, num int = NULL) RETURNS bigint LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO restocks VALUES (k, n, c, num);
		PERFORM dc_restock('s', k, n);
		RETURN n;
	END $$;

	-- What a hold has of each of its keys. Those that are not its first count as held until it is ended
	CREATE VIEW hold_line AS
		SELECT h.hold_id, h.state, l.key, l.qty, h.expires_at <= statement_timestamp() AND l.key = h.key AS free
		FROM s_hold AS h, LATERAL (SELECT h.key, h.qty WHERE h.keys IS NULL UNION ALL SELECT * FROM unnest(h.keys, h.qtys)) AS l(key, qty);

	-- These return how many units were sold.
	CREATE FUNCTION buy(k text, n bigint, how text = 'take', c text = NULL, num int = NULL) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		got bigint := CASE how WHEN 'up to' THEN dc_take_up_to('s', k, n) ELSE n * dc_take('s', k, n, how = 'wait')::int END;
	BEGIN
		IF got < 0 OR got > n THEN
			RAISE 'took % of %', got, n;
		END IF;
		INSERT INTO orders SELECT k, got, NULL, c, num WHERE got > 0;
		RETURN got;
	END $$;
	CREATE FUNCTION buy_cart(ks text[], ns bigint[], c text = NULL, num int = NULL) RETURNS bigint LANGUAGE plpgsql AS $$
	BEGIN
		IF NOT dc_take_all('s', ks, ns) THEN
			RETURN 0;
		END IF;
		INSERT INTO orders SELECT k, n, NULL, c, num FROM unnest(ks, ns) AS u(k, n);
		RETURN (SELECT sum(n) FROM unnest(ns) AS n);
	END $$;
	CREATE FUNCTION confirm(h uuid, n bigint = NULL, c text = NULL, num int = NULL) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		got bigint := 0;
	BEGIN
		IF dc_hold_confirm('s', h, n, strict => false) = 'confirmed' THEN
			INSERT INTO orders SELECT l.key, CASE WHEN keys IS NULL THEN confirmed ELSE l.qty END, h, c, num FROM s_hold JOIN hold_line AS l USING (hold_id) WHERE hold_id = h;
			SELECT confirmed INTO STRICT got FROM s_hold WHERE hold_id = h;
		END IF;
		RETURN got;
	END $$;

	-- A hold, or one that does not exist
	CREATE FUNCTION hold(k text, n bigint, ttl interval, h uuid = gen_random_uuid()) RETURNS uuid LANGUAGE sql AS $$
		SELECT coalesce(dc_hold('s', k, n, ttl, h), '00000000-0000-0000-0000-000000000000')
	$$;

	CREATE FUNCTION hold_cart(ks text[], ns bigint[], ttl interval, h uuid = gen_random_uuid()) RETURNS uuid LANGUAGE sql AS $$
		SELECT coalesce(dc_hold_all('s', ks, ns, ttl, h), '00000000-0000-0000-0000-000000000000')
	$$;

	-- The books, by key. A hold whose time was up when the statement began is not held any more, also if it has not been ended
	CREATE FUNCTION books(OUT key text, OUT restocked numeric, OUT sold numeric, OUT held numeric, OUT available bigint) RETURNS SETOF record LANGUAGE sql STABLE AS $$
		SELECT k, coalesce(r.n, 0), coalesce(o.n, 0), coalesce(h.n, 0), dc_get('s', k)
		FROM (SELECT key FROM restocks UNION SELECT key FROM s UNION SELECT key FROM s_shard) AS u(k)
		LEFT JOIN (SELECT key AS k, sum(qty) AS n FROM restocks GROUP BY key) AS r USING (k)
		LEFT JOIN (SELECT key AS k, sum(qty) AS n FROM orders GROUP BY key) AS o USING (k)
		LEFT JOIN (SELECT key AS k, sum(qty) AS n FROM hold_line WHERE state = 'open' AND NOT free GROUP BY key) AS h USING (k)
	$$;

	-- What is wrong in a snapshot, and in the books of holds
	CREATE FUNCTION wrong() RETURNS SETOF text LANGUAGE sql STABLE AS $$
		WITH b AS MATERIALIZED (SELECT * FROM books()),
		rows AS (SELECT key, sum(units) AS units, min(units) AS least, sum(inc - dec) AS net FROM s_shard GROUP BY key),
		expired AS (SELECT key, sum(qty) AS n FROM hold_line WHERE state = 'open' AND free GROUP BY key)
		SELECT format('%s: restocked %s, sold %s, held %s, available %s, expired %s, units %s, least %s, total %s, by SQL %s',
			b.key, restocked, sold, held, available, n, units, least, s.value, coalesce(s.value, 0) + coalesce(net, 0))
		FROM b LEFT JOIN rows USING (key) LEFT JOIN s USING (key) LEFT JOIN expired USING (key)
		WHERE restocked <> sold + held + available OR available < 0 OR coalesce(units, 0) <> available - coalesce(n, 0)
			OR least < 0 OR s.value < 0 OR coalesce(s.value, 0) + coalesce(net, 0) <> available - coalesce(n, 0)
		UNION ALL
		SELECT format('sum %s, dc_sum %s', sum(available), dc_sum('s')) FROM b HAVING sum(available) <> dc_sum('s')
		UNION ALL
		SELECT format('hold %s: %s of %s, state %s, sold %s', hold_id, confirmed, h.qty, state, o.n)
		FROM s_hold AS h FULL JOIN (SELECT hold, sum(qty) AS n FROM orders WHERE hold IS NOT NULL GROUP BY hold) AS o ON hold = hold_id
		WHERE CASE state WHEN 'confirmed' THEN confirmed < 1 OR o.n IS DISTINCT FROM confirmed ELSE o.n IS NOT NULL END
	$$;
	CREATE FUNCTION check_snapshot() RETURNS text LANGUAGE plpgsql STABLE AS $$
	DECLARE
		bad text := (SELECT string_agg(w, E'\n') FROM wrong() AS w);
	BEGIN
		IF bad IS NOT NULL THEN
			RAISE 'wrong in a snapshot: %', bad;
		END IF;
		RETURN (SELECT md5(string_agg(format('%s %s %s %s', key, restocked, sold, held + available), ' ' ORDER BY key)) FROM books() AS b);
	END $$;

	-- The same for one key: a transaction's own sales are in its snapshot as well
	CREATE FUNCTION check_key(k text) RETURNS void LANGUAGE plpgsql STABLE AS $$
	DECLARE
		b record;
	BEGIN
		SELECT (SELECT coalesce(sum(qty), 0) FROM restocks WHERE key = k) AS restocked,
			(SELECT coalesce(sum(qty), 0) FROM orders WHERE key = k) AS sold,
			(SELECT coalesce(sum(qty), 0) FROM hold_line WHERE key = k AND state = 'open' AND NOT free) AS held,
			dc_get('s', k) AS available INTO b;
		IF b.restocked <> b.sold + b.held + b.available OR b.available < 0 THEN
			RAISE 'wrong in a transaction: % %', k, b;
		END IF;
	END $$;

	-- Sells what is left of all keys; what is not as it should be
	CREATE FUNCTION sell_out() RETURNS SETOF text LANGUAGE plpgsql AS $$
	DECLARE
		k text; had bigint; got bigint;
	BEGIN
		FOR k, had IN SELECT key, available FROM books() LOOP
			got := CASE WHEN had > 1 AND random() < 0.3 THEN buy(k, had) ELSE buy(k, 1000000000, 'up to') END;
			IF got <> had OR dc_take('s', k) OR dc_take_up_to('s', k, 5) <> 0 THEN
				RETURN NEXT format('%s: %s of %s sold', k, got, had);
			END IF;
		END LOOP;
	END $$;};

# stock_nodes: two servers with such a stock, one with the worker and the gate, which
# need preload, and one without
sub stock_nodes
{
	my @conf = ('max_connections = 120', 'autovacuum_naptime = 1s', 'deadlock_timeout = 100ms',
		'restart_after_crash = on', 'max_pred_locks_per_transaction = 256');
	my %nodes = (
		preload => dc_node('preload', init => { allows_streaming => 1 }, conf => [ @conf,
				"shared_preload_libraries = 'dcounter'", "dcounter.compact_interval = '100ms'",
				"dcounter.expire_interval = '50ms'" ]),
		plain => dc_node('plain', conf => \@conf));

	sql($_, 'postgres', $schema) foreach values %nodes;
	return %nodes;
}

# script(LEVEL, BODY): a pgbench script. HOT is a key that is mostly sold
# out, KEY any key.
my $scripts = 0;

sub script
{
	my ($level, $body) = @_;
	my $head = "\\set hot random(1, 6)\n\\set any random(1, 60)\n\\set any2 random(1, 60)\n"
	  . "\\set q random(1, 5)\n\\set q2 random(1, 5)\n\\set more random(1, 40)\n\\set ttl random(1, 30)\n"
	  . "\\set pause random(0, 20)\n\\set id random(1, 400)\n\\set gid random(1, 1000000000000000)\n";

	$body =~ s/HOT/'k:hot'/g;
	$body =~ s/ANY(2?)/'k:any$1'/g;
	$body = "BEGIN ISOLATION LEVEL $level;\n$body\n" if $level;
	$body .= "COMMIT;\n" if $level && $body !~ /PREPARE TRANSACTION|ROLLBACK;/;
	return file_of('script' . ++$scripts . '.sql', "$head$body\n");
}

my @load;

sub load_scripts
{
	foreach my $level ('READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
	{
		push @load,
		  script($level, 'SELECT buy(HOT, :q);') . '@4',
		  script($level, 'SELECT buy(ANY, :q);') . '@2',
		  script($level, "SELECT buy(HOT, :q, 'up to');") . '@2',
		  script($level, 'SELECT buy_cart(ARRAY[HOT, ANY, ANY2, HOT], ARRAY[1, :q, :q2, 1]);') . '@2',
		  script($level, 'SELECT buy_cart(ARRAY[ANY2, ANY, HOT], ARRAY[:q, :q2, 1]);') . '@2',
		  script($level, "SELECT buy(HOT, :q);\nROLLBACK;") . '@2',
		  script($level, 'SAVEPOINT a; SELECT buy(HOT, :q); SAVEPOINT b; SELECT restock(HOT, 50); ROLLBACK TO a; SELECT buy(HOT, :q2); SELECT check_key(HOT);') . '@2',
		  script($level, 'SAVEPOINT a; SELECT buy_cart(ARRAY[HOT, ANY], ARRAY[:q, 1]); ROLLBACK TO a; SELECT restock(ANY, 2); SELECT buy(ANY, 3);'),
		  script($level, "SELECT buy(HOT, :q);\nPREPARE TRANSACTION ':client_id-:gid';\nCOMMIT PREPARED ':client_id-:gid';"),
		  script($level, "SELECT buy(ANY, :q);\nPREPARE TRANSACTION ':client_id-:gid';\nROLLBACK PREPARED ':client_id-:gid';"),
		  script($level, 'SELECT restock(HOT, :more);') . '@4',
		  script($level, 'SELECT restock(ANY, :q);') . '@2';
	}
	push @load,
	  script('READ COMMITTED', "SELECT buy(HOT, :q, 'wait');"),
	  (map { script('', "SELECT hold(HOT, :q, ':ttl ms') AS h \\gset\n\\sleep :pause ms\nSELECT $_;") . '@3' }
		  "confirm(':h')", "dc_hold_release('s', ':h', strict => false)", "confirm(':h'), dc_hold_release('s', ':h', strict => false)", '1'),
	  script('', "SELECT hold(ANY, :q + 1, ':ttl ms') AS h \\gset\n\\sleep :pause ms\nSELECT confirm(':h', :q);") . '@2',
	  script('', "SELECT hold(HOT, 2, '1 hour') AS h \\gset\nBEGIN;\nSELECT confirm(':h');\nROLLBACK;\nSELECT confirm(':h', 1);") . '@2',
	  # more than is held; carts
	  script('', "SELECT hold(HOT, :q, ':ttl ms') AS h \\gset\n\\sleep :pause ms\nSELECT confirm(':h', :q + :q2);") . '@2',
	  (map { script('', "SELECT hold_cart(ARRAY[ANY, HOT, ANY2], ARRAY[:q, 1, :q2], ':ttl ms') AS h \\gset\n\\sleep :pause ms\nSELECT $_;") . '@2' }
		  "confirm(':h')", "dc_hold_release('s', ':h', strict => false)", '1'),
	  script('', "SELECT hold_cart(ARRAY['k' || :id % 6 + 1, 'k' || :id % 7 + 2], ARRAY[1, 2], '5 ms', ('00000000-0000-0000-0003-' || lpad(':id', 12, '0'))::uuid) AS h \\gset\nSELECT confirm(':h');"),
	  # the same hold by several sessions, each of which ends it in its own way
	  (map { script('', "SELECT hold('k' || :id % 6 + 1, :id % 3 + 1, '5 ms', ('00000000-0000-0000-0001-' || lpad(':id', 12, '0'))::uuid) AS h \\gset\nSELECT $_;") }
		  "confirm(':h')", "dc_hold_release('s', ':h', strict => false)"),
	  # compaction and expiry by hand, in both nodes
	  (map { file_of("by_hand$_->[0].sql", "$_->[1];\n") } [ 1, 'SELECT dc_compact()' ], [ 2, 'CALL dc_maintain()' ]);
	return;
}

# pgbench(NODE, OPTIONS...): in the background
sub pgbench
{
	my ($node, @options) = @_;

	return start_command('pgbench', '-n', '-j', 1, '--failures-detailed', @options, $node->connstr('postgres'));
}

# load_for(NODE, SECONDS, CLIENTS): random sales, holds, restocks and compaction
sub load_for
{
	my ($node, $time, $n) = @_;

	load_scripts() if !@load;
	return pgbench($node, '-c', $n, '-T', $time, map { ('-f', $_) } @load);
}

# all_sold(NODE, NAME): ends the holds; then all that is available can be sold
sub all_sold
{
	my ($node, $name) = @_;
	my $open = q{SELECT count(*) FROM s_hold WHERE state = 'open' AND expires_at};

	is(sql($node, 'postgres', 'SELECT wrong()'), '', "$name: the books are right");
	is(wait_for($node, 'postgres', "$open BETWEEN now() AND now() + '1 minute'", '0'), '0', "$name: the time of short holds is up");
	sql($node, 'postgres', 'CALL dc_maintain()') if $node->name ne 'preload';
	is(wait_for($node, 'postgres', "$open < now()", '0'), '0', "$name: they expire");
	sql($node, 'postgres', q{SELECT dc_hold_release('s', hold_id) FROM dc_holds('s')});
	is(sql($node, 'postgres', 'SELECT sell_out()'), '', "$name: what is available can be sold, and no more");
	is(sql($node, 'postgres', q{
		SELECT * FROM books() WHERE restocked <> sold OR held <> 0 OR available <> 0 OR dc_take('s', key);
		SELECT wrong();}), '', "$name: all is sold");
	return;
}

1;
