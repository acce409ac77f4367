# Tables of all rooms, the same ones in mallory's schema m and in alice's schema a, and what
# users do with them. In m they are called as they are, with values that are as odd as
# possible. In a each change is logged in the same transaction, so the values of alice must agree
# with the log whatever mallory does, and her jobs must be done in time. Limits and presences have
# no table that could be mallory's: there are only alice's, which its code tries to use.
package DcHostile::Rooms;

use strict;
use warnings;

use DcChaos::Mix;
use Exporter 'import';

our @EXPORT = qw(room_names focus create_room fill_room alices_code calls_of logged_calls forgeries odd_calls);

my $accounts = join('', map { "; PERFORM dc_account_open('S.LEDGER', $_)" } q{'bank', NULL}, q{'k1', -500}, q{'k2', 0, 1500}, q{'k3', -1000, 1000}, q{'k4', NULL});
# A source, one with partitions, and the counters that are bound to them
my $sources = q{
	CREATE TABLE S.bnd_src (key text, item text, n bigint NOT NULL DEFAULT 1, gone bool NOT NULL DEFAULT false);
	CREATE INDEX ON S.bnd_src (key);
	CREATE TABLE S.bnd_prt (part int NOT NULL, key text, item text) PARTITION BY LIST (part);
	CREATE TABLE S.bnd_prt_1 PARTITION OF S.bnd_prt FOR VALUES IN (1);
	CREATE TABLE S.bnd_prt_2 PARTITION OF S.bnd_prt FOR VALUES IN (2);
	PERFORM dc_create('S.bnd'); PERFORM dc_create('S.bnd_uniq'); PERFORM dc_create('S.bnd_prts');
	INSERT INTO S.bnd_src (key, item) SELECT 'k' || i, 'i' || i FROM generate_series(1, 3) AS i;
	PERFORM dc_bind('S.bnd', 'S.bnd_src', 'key', value => 'n', filter => 'NOT gone');
	PERFORM dc_bind('S.bnd_uniq', 'S.bnd_src', 'key', distinct_of => 'item', filter => 'NOT gone');
	PERFORM dc_bind('S.bnd_prts', 'S.bnd_prt', 'key')};
# Names of tables are looked up when a statement is parsed: one statement each
my %create = (
	bnd => $sources,
	bud => q{PERFORM dc_budget_create('S.bud')},
	cnt => q{PERFORM dc_create('S.cnt')},
	buf => q{PERFORM dc_create('S.buf', mode => 'buffered', flush_interval => '50 ms')},
	idl => q{PERFORM dc_create('S.idl', idle => '3650 days')},
	par => q{PERFORM dc_create('S.par', partitions => 2)},
	hsh => q{PERFORM dc_create('S.hsh', shard_by => 'random', max_shards => 4); PERFORM dc_alter('S.hsh', events => '100 ms')},
	onc => q{PERFORM dc_create('S.onc'); PERFORM dc_incr_once('S.onc', 'k1', 1, 'e0')},
	rep => q{PERFORM dc_create('S.rep'); PERFORM dc_replicate('S.rep')},
	rnk => q{PERFORM dc_create('S.rnk'); CREATE INDEX ON S.rnk (value DESC, key); PERFORM dc_rank_create('S.rnk')},
	rst => q{PERFORM dc_stock_create('S.rst'); PERFORM dc_replicate('S.rst')},
	stk => q{PERFORM dc_stock_create('S.stk', 8)},
	trd => q{PERFORM dc_create('S.trd', trend => '3650 days')},
	unr => q{PERFORM dc_create('S.unr'); PERFORM dc_unread_create('S.unr_seen', 'S.unr')},
	win => q{PERFORM dc_window_create('S.win', '1 s', '6 s', '{"3 s": "36000 days"}', 'drop')},
	dis => q{PERFORM dc_distinct_create('S.dis', 10); PERFORM dc_distinct_create('S.dis_day', 10, bucket => '1 day')},
	led => q{PERFORM dc_ledger_create('S.led')} . $accounts =~ s/LEDGER/led/gr,
	mon => q{PERFORM dc_ledger_create('S.mon', partition_by => 'month')} . $accounts =~ s/LEDGER/mon/gr);

# The initial contents of mallory's tables
my %fill = (
	bnd => q{INSERT INTO S.bnd_src (key, item, n) SELECT 'k' || i % 6, 'i' || i % 9, i FROM generate_series(1, 40) AS i;
		INSERT INTO S.bnd_prt SELECT 1 + i % 2, 'k' || i % 6, 'i' || i % 9 FROM generate_series(1, 40) AS i},
	bud => q{PERFORM dc_grant('S.bud', 'k' || i % 6, 1000 * i, 'g' || i, CASE WHEN i % 4 = 0 THEN clock_timestamp() + interval '300 ms' ELSE 'infinity' END) FROM generate_series(1, 12) AS i;
		PERFORM dc_reserve_all('S.bud', ARRAY['k' || i, 'k' || i % 3], ARRAY[10, 5], (lpad(i::text, 8, '0') || '-0000-4000-8000-000000000000')::uuid, CASE WHEN i % 2 = 0 THEN interval '1 hour' ELSE '200 ms' END) FROM generate_series(3, 5) AS i},
	onc => q{PERFORM dc_incr_once('S.onc', 'k' || i % 5, 1, 'e' || i) FROM generate_series(1, 10) AS i},
	idl => q{PERFORM dc_alter('S.idl', idle => '1 ms'); PERFORM dc_incr('S.idl', 'k' || i) FROM generate_series(1, 20) AS i},
	rst => q{PERFORM dc_restock('S.rst', 'k' || i, 1000), dc_want('S.rst', 'k' || i, 2000) FROM generate_series(1, 6) AS i},
	unr => q{PERFORM dc_incr('S.unr', 'k' || i, 1000) FROM generate_series(1, 6) AS i; PERFORM dc_mark_read('S.unr_seen', i, 'k' || i, 10 * i) FROM generate_series(1, 6) AS i},
	win => q{PERFORM dc_incr_at('S.win', 'k' || i % 6, i, clock_timestamp() - i * interval '1 s'), dc_apply() FROM generate_series(0, 20) AS i},
	dis => q{PERFORM dc_add('S.dis', 'k' || i % 6, i), dc_add('S.dis_day', 'k' || i % 6, i, clock_timestamp() - i * interval '1 hour') FROM generate_series(1, 40) AS i},
	stk => q{PERFORM dc_restock('S.stk', 'k' || i, 1000) FROM generate_series(1, 6) AS i; PERFORM dc_apply();
		PERFORM dc_hold('S.stk', 'k' || i, 1, CASE WHEN i % 2 = 0 THEN interval '1 hour' ELSE '200 ms' END) FROM generate_series(1, 6) AS i},
	map { $_ => qq{PERFORM dc_transfer('S.$_', 'bank', 'k' || i, 100, 'e' || i), dc_transfer_pending('S.$_', 'bank', 'k' || i, 1, 'p' || i, NULL, CASE WHEN i % 2 = 0 THEN interval '1 hour' ELSE '200 ms' END) FROM generate_series(1, 4) AS i} } 'led', 'mon');

sub room_names
{
	return sort keys %create;
}

# focus: the rooms on which mallory and the users of its tables work in this round
sub focus
{
	return $ENV{OWNERS_FOCUS} ? split(' ', $ENV{OWNERS_FOCUS}) : room_names();
}

# fill_room(ROOM, SCHEMA): a plpgsql statement
sub fill_room
{
	my ($room, $schema) = @_;

	return ($fill{$room} // "PERFORM dc_incr('S.$room', 'k' || i), dc_apply() FROM generate_series(1, 5) AS i") =~ s/\bS\./$schema./gr;
}

# create_room(ROOM, SCHEMA): a plpgsql statement
sub create_room
{
	my ($room, $schema) = @_;

	return $create{$room} =~ s/\bS\./$schema./gr;
}

# alices_code: her schema with its logs
sub alices_code
{
	my $create = join('', map { create_room($_, 'a') . ";\n" } room_names());

	return "DO \$\$ BEGIN\n$create END \$\$;\n" . q{
		SELECT dc_limit_create('a.lim', 'fixed', 1000000, '1000 days'), dc_presence_create('a.prs', '7 days', events => '50 ms'), dc_presence_create('a.brief', '1 s', events => '50 ms');
		SELECT dc_limit_grant('a.lim', 'carol'), dc_presence_grant('a.prs', 'carol'), dc_presence_grant('a.brief', 'carol');
		CREATE TABLE a.log (room text, key text, n numeric);
		INSERT INTO a.log VALUES ('onc', 'k1', 1);
		CREATE TABLE a.event (room text, event text, PRIMARY KEY (room, event));
		CREATE FUNCTION a.incr(r text, k text, n bigint) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM dc_incr(('a.' || r)::regclass, k, n);
			INSERT INTO a.log VALUES (r, k, n);
		END $$;
		CREATE FUNCTION a.many(r text, n bigint) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM dc_incr_many(('a.' || r)::regclass, array_agg('k' || i), array_agg(n)) FROM generate_series(1, 20) AS i;
			INSERT INTO a.log SELECT r, 'k' || i, n FROM generate_series(1, 20) AS i;
		END $$;
		CREATE FUNCTION a.once(k text, n bigint, e text) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			IF dc_incr_once('a.onc', k, n, e) THEN
				INSERT INTO a.log VALUES ('onc', k, n);
				INSERT INTO a.event VALUES ('onc', e);
			END IF;
		END $$;
		CREATE FUNCTION a.assign(r text, k text, v bigint) RETURNS void LANGUAGE plpgsql AS $$
		DECLARE
			old bigint := dc_set(('a.' || r)::regclass, k, v);
		BEGIN
			INSERT INTO a.log VALUES (r, k, v - coalesce(old, 0));
		END $$;
		CREATE FUNCTION a.restock(k text, n bigint) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM dc_restock('a.stk', k, n);
			INSERT INTO a.log VALUES ('stk', k, n);
		END $$;
		CREATE FUNCTION a.take(k text, n bigint) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			IF dc_take('a.stk', k, n) THEN
				INSERT INTO a.log VALUES ('stk', k, -n);
			END IF;
		END $$;
		CREATE FUNCTION a.hold(k text, n bigint, ttl interval) RETURNS void LANGUAGE sql AS $$ SELECT dc_hold('a.stk', k, n, ttl) $$;
		CREATE FUNCTION a.sell(nth float8) RETURNS void LANGUAGE plpgsql AS $$
		DECLARE
			h record;
		BEGIN
			SELECT hold_id, qty, key INTO h FROM a.stk_hold WHERE state = 'open' OFFSET nth * (SELECT count(*) FROM a.stk_hold WHERE state = 'open') LIMIT 1;
			IF dc_hold_confirm('a.stk', coalesce(h.hold_id, gen_random_uuid()), strict => false) = 'confirmed' THEN
				INSERT INTO a.log VALUES ('stk', h.key, -h.qty);
			END IF;
		END $$;
		SELECT dc_grant('a.bud', 'k' || i, 1000000, 'first') FROM generate_series(0, 9) AS i;
		SELECT dc_grant('a.bud', 'org', 1000000000, 'first');
		CREATE FUNCTION a.grant(k text, n bigint, name text, ends timestamptz) RETURNS void LANGUAGE sql AS $$ SELECT dc_grant('a.bud', k, n, name, ends), dc_allowance('a.bud', k, 100, '1 second') $$;
		CREATE FUNCTION a.reserve(k text, n bigint, ttl interval) RETURNS void LANGUAGE sql AS $$ SELECT dc_reserve_all('a.bud', ARRAY[k, 'org'], ARRAY[n, n], gen_random_uuid(), ttl, ARRAY[1, n]) $$;
		-- ends one of the reservations that can be: settles a part of it, or twice as much, or releases it
		CREATE FUNCTION a.settle(nth float8, part float8) RETURNS void LANGUAGE plpgsql AS $$
		DECLARE
			r record;
			costs bigint[];
		BEGIN
			SELECT * INTO r FROM a.bud_reservation WHERE state IN ('open', 'expired') OFFSET nth * (SELECT count(*) FROM a.bud_reservation WHERE state IN ('open', 'expired')) LIMIT 1;
			IF part IS NULL THEN
				PERFORM dc_release('a.bud', r.reservation_id) WHERE r.reservation_id IS NOT NULL;
				RETURN;
			END IF;
			costs := ARRAY(SELECT ceil(u * part) FROM unnest(r.amounts) AS u);
			IF r.reservation_id IS NOT NULL AND dc_settle('a.bud', r.reservation_id, costs) <> 'settled already' THEN
				INSERT INTO a.log SELECT 'bud', u.key, u.cost FROM unnest(r.keys, costs) AS u (key, cost);
			END IF;
		EXCEPTION WHEN object_not_in_prerequisite_state OR invalid_parameter_value THEN
			NULL; -- another session has ended it, otherwise
		END $$;
		CREATE FUNCTION a.move(l text, f text, t text, n bigint, e text) RETURNS void LANGUAGE plpgsql AS $$
		DECLARE
			again bool;
		BEGIN
			SELECT duplicate INTO STRICT again FROM dc_transfer(('a.' || l)::regclass, f, t, n, e);
			IF NOT again THEN
				INSERT INTO a.log VALUES (l, f, -n), (l, t, n);
			END IF;
		EXCEPTION WHEN SQLSTATE 'LG001' OR SQLSTATE 'LG002' OR SQLSTATE 'LG003' THEN
			NULL;
		END $$;
		CREATE FUNCTION a.promise(l text, f text, t text, n bigint, e text) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM dc_transfer_pending(('a.' || l)::regclass, f, t, n, e, NULL, '300 ms');
		EXCEPTION WHEN SQLSTATE 'LG001' OR SQLSTATE 'LG002' OR SQLSTATE 'LG003' THEN
			NULL;
		END $$;

		CREATE FUNCTION a.hit(k text, n bigint, ago float8) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			IF dc_incr_at('a.win', k, n, clock_timestamp() - ago * interval '1 s') THEN
				INSERT INTO a.log VALUES ('win', k, n);
			END IF;
		END $$;
		CREATE TABLE a.visit (key text, item bigint);
		CREATE FUNCTION a.visit(k text, i bigint) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM dc_add('a.dis', k, i), dc_add('a.dis_day', k, i, '2020-01-06');
			INSERT INTO a.visit VALUES (k, i);
		END $$;
		CREATE FUNCTION a.read(m int, k text, n bigint) RETURNS void LANGUAGE sql AS $$ SELECT dc_mark_read('a.unr_seen', m, k, n) $$;
		CREATE FUNCTION a.ask(k text, n bigint) RETURNS void LANGUAGE sql AS $$ INSERT INTO a.log SELECT 'lim', k, n FROM dc_limit('a.lim', k, n) WHERE allowed $$;
		CREATE FUNCTION a.come(m text) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM dc_enter('a.prs', 'room', m), dc_enter('a.brief', 'room', m);
			INSERT INTO a.log VALUES ('prs', m, 1);
		END $$;
		CREATE FUNCTION a.like(k text, i text, amount bigint) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO a.bnd_src (key, item, n) VALUES (k, i, amount);
			INSERT INTO a.bnd_prt VALUES (1 + (amount & 1), k, i);
		END $$;
		CREATE FUNCTION a.unlike(k text, many int) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			DELETE FROM a.bnd_src WHERE ctid IN (SELECT ctid FROM a.bnd_src WHERE key = k LIMIT many);
			UPDATE a.bnd_src SET gone = NOT gone WHERE ctid IN (SELECT ctid FROM a.bnd_src WHERE key = k LIMIT 1);
			UPDATE a.bnd_prt SET part = 3 - part, key = k || 'x' WHERE ctid IN (SELECT ctid FROM a.bnd_prt WHERE key = k LIMIT 1);
		END $$;

		-- what it cannot have changed
		CREATE FUNCTION a.wrong() RETURNS SETOF text LANGUAGE sql AS $$
			WITH log AS (SELECT room, key, sum(n) AS n FROM a.log GROUP BY room, key)
			SELECT format('%s %s: value %s, log %s', room, key, value, n) FROM log, LATERAL (SELECT dc_get(('a.' || room)::regclass, key) AS value) AS v WHERE room IN ('cnt', 'buf', 'idl', 'par', 'hsh', 'onc', 'unr', 'trd', 'rnk') AND value <> n
			UNION ALL SELECT format('trend of %s: %s, total %s', key, score, value) FROM a.trd FULL JOIN dc_trending('a.trd', 1000) AS t USING (key) WHERE abs(coalesce(score, 0) - greatest(coalesce(value, 0), 0)) > 0.3 + abs(coalesce(value, 0)) * 0.001
			UNION ALL SELECT format('unread of %s: %s, log %s', log.key, u, n) FROM log, LATERAL dc_unread('a.unr_seen', 'nobody', ARRAY[log.key]) AS u WHERE room = 'unr' AND (u.unread <> n OR u.upto <> n)
			UNION ALL SELECT format('%s has read %s', s, u) FROM a.unr_seen AS s, LATERAL dc_unread('a.unr_seen', member, ARRAY[s.key]) AS u WHERE u.seen > u.upto OR u.unread <> u.upto - u.seen OR u.seen <> s.seen
			UNION ALL SELECT format('window of %s: %s, log %s', key, w, n) FROM log, LATERAL dc_window('a.win', key, '40000 days', clock_timestamp() + interval '1 day') AS w WHERE room = 'win' AND (w.value <> n OR w.lower <> n OR w.upper <> n)
			UNION ALL SELECT format('%s of %s: %s, log %s', t, key, round(dc_hll_count(s)), round(dc_hll_count(h))) FROM (SELECT key, dc_hll_agg(item, 10) AS h FROM a.visit GROUP BY key) AS l, unnest(ARRAY['a.dis', 'a.dis_day']::regclass[]) AS t,
				LATERAL (SELECT dc_distinct_sketch(t, key) AS s) AS d WHERE s IS DISTINCT FROM h
			-- what was asked or entered stays so if the transaction rolls back
			UNION ALL SELECT format('limit %s: remaining %s, log %s', key, remaining, n) FROM log, LATERAL dc_limit_peek('a.lim', key) WHERE room = 'lim' AND 1000000 - remaining < n
			UNION ALL SELECT format('%s is not present', key) FROM log WHERE room = 'prs' AND key NOT IN (SELECT member FROM dc_presence_list('a.prs', 'room', n => 10000))
			UNION ALL SELECT format('rep %s: value %s, log %s, others %s', key, value, n, others) FROM log, LATERAL (SELECT dc_get('a.rep', key) AS value, (SELECT coalesce(sum(inc - dec), 0) FROM a.rep_region AS r WHERE r.key = log.key AND region <> 'here') AS others) AS v
				WHERE room = 'rep' AND value <> n + others
			UNION ALL SELECT format('rep: %s keys are not what regions have counted', keys) FROM dc_region_check('a.rep') WHERE region IS NULL AND keys > 0
			UNION ALL SELECT format('stock %s: available %s, held %s, log %s', key, available, held, n) FROM log, LATERAL (SELECT dc_get('a.stk', key) AS available,
				(SELECT coalesce(sum(qty), 0) FROM a.stk_hold AS h WHERE h.key = log.key AND state = 'open' AND expires_at > statement_timestamp()) AS held) AS v WHERE room = 'stk' AND available + held <> n
			UNION ALL SELECT format('books of a budget: %s', c) FROM dc_budget_check('a.bud') AS c
			UNION ALL SELECT format('units of a budget: %s', s) FROM a.bud_pool_shard AS s WHERE units < 0
			UNION ALL SELECT format('budget %s: settled %s, log %s', coalesce(l.key, r.key), r.cost, l.n) FROM (SELECT * FROM log WHERE room = 'bud') AS l
				FULL JOIN (SELECT u.key, sum(u.cost) AS cost FROM a.bud_reservation, unnest(keys, settled) AS u (key, cost) WHERE state = 'settled' GROUP BY u.key) AS r USING (key) WHERE l.n IS DISTINCT FROM r.cost
			UNION ALL SELECT format('%s %s: balance %s, log %s', room, key, balance, n) FROM log, LATERAL dc_balance(('a.' || room)::regclass, key) WHERE room IN ('led', 'mon') AND balance <> n
			UNION ALL SELECT format('bound %s: source %s, value %s', key, n, value) FROM (SELECT key, sum(n) AS n FROM a.bnd_src WHERE NOT gone GROUP BY key) AS s, LATERAL (SELECT dc_get('a.bnd', key) AS value) AS v WHERE value <> n
			UNION ALL SELECT format('bound, distinct %s: source %s, value %s', key, n, value) FROM (SELECT key, count(DISTINCT item) AS n FROM a.bnd_src WHERE NOT gone GROUP BY key) AS s, LATERAL (SELECT dc_get('a.bnd_uniq', key) AS value) AS v WHERE value <> n
			UNION ALL SELECT format('rank of %s: %s, by SQL %s', key, dc_rank('a.rnk', key), r) FROM (SELECT key, rank() OVER (ORDER BY value DESC) AS r FROM a.rnk) AS s
				WHERE 'building' <> (SELECT state FROM dcounter.source_state AS t WHERE t.counter = 'a.rnk_rank'::regclass) AND dc_rank('a.rnk', key) IS DISTINCT FROM r
			UNION ALL SELECT format('%s %s: source %s, value %s', c, key, source, counter) FROM unnest(ARRAY['a.bnd', 'a.bnd_uniq', 'a.bnd_prts', 'a.rnk_rank']::regclass[]) AS c, dc_source_check(c) WHERE 'building' <> (SELECT state FROM dcounter.source_state AS t WHERE t.counter = c)
			UNION ALL SELECT format('%s: sum %s', l, dc_sum(l)) FROM unnest(ARRAY['a.led', 'a.mon']::regclass[]) AS l WHERE dc_sum(l) <> 0
			UNION ALL SELECT format('%s: %s', l, c) FROM unnest(ARRAY['a.led', 'a.mon']::regclass[]) AS l, dc_ledger_check(l) AS c
		$$;
		-- what jobs have not done
		CREATE FUNCTION a.undone() RETURNS SETOF text LANGUAGE sql AS $$
			SELECT format('compaction of %s: %s rows', r, count(*)) FROM (SELECT 'cnt', inc, dec FROM a.cnt_shard UNION ALL SELECT 'buf', inc, dec FROM a.buf_shard UNION ALL SELECT 'par', inc, dec FROM a.par_shard
				UNION ALL SELECT 'hsh', inc, dec FROM a.hsh_shard UNION ALL SELECT 'onc', inc, dec FROM a.onc_shard UNION ALL SELECT 'unr', inc, dec FROM a.unr_shard UNION ALL SELECT 'trd', inc, dec FROM a.trd_shard UNION ALL SELECT 'idl', inc, dec FROM a.idl_shard UNION ALL SELECT 'rnk', inc, dec FROM a.rnk_shard UNION ALL SELECT 'rnk_rank', inc, dec FROM a.rnk_rank_shard UNION ALL SELECT 'rep', inc, dec FROM a.rep_shard UNION ALL SELECT 'led', inc, dec FROM a.led_shard UNION ALL SELECT 'mon', inc, dec FROM a.mon_shard
				UNION ALL SELECT 'bnd', inc, dec FROM a.bnd_shard UNION ALL SELECT 'bnd_uniq', inc, dec FROM a.bnd_uniq_shard UNION ALL SELECT 'bnd_prts', inc, dec FROM a.bnd_prts_shard) AS u(r, inc, dec)
			WHERE inc <> 0 OR dec <> 0 GROUP BY r
			UNION ALL SELECT format('rollup: %s buckets', count(*)) FROM a.win WHERE bucket < clock_timestamp() - interval '12 s' AND extract(epoch FROM bucket - '2000-01-03 UTC')::bigint % 3 <> 0 HAVING count(*) > 0
			UNION ALL SELECT format('folding: %s deltas', count(*)) FROM (SELECT FROM a.dis_delta UNION ALL SELECT FROM a.dis_day_delta) AS d HAVING count(*) > 0
			UNION ALL SELECT format('flush: %s keys of %s for %s', keys, counter, oldest) FROM dc_stat_buffer WHERE increments > 0 AND counter = 'a.buf'::regclass
			UNION ALL SELECT format('build of %s: %s', counter, state) FROM dcounter.source_state WHERE counter IN ('a.bnd'::regclass, 'a.bnd_uniq', 'a.bnd_prts', 'a.rnk_rank') AND state <> 'exact'
			UNION ALL SELECT format('presence %s: %s rooms to be told of', name, untold) FROM dc_stat_presence WHERE name LIKE 'a.%' AND untold > 0
			UNION ALL SELECT format('expiry: %s members', members) FROM dc_stat_presence WHERE name = 'a.brief' AND members > 0
			UNION ALL SELECT format('expiry: %s holds', count(*)) FROM a.stk_hold WHERE state = 'open' AND expires_at < clock_timestamp() HAVING count(*) > 0
			UNION ALL SELECT format('expiry: %s reservations', count(*)) FROM a.bud_reservation WHERE state = 'open' AND expires_at < clock_timestamp() HAVING count(*) > 0
			UNION ALL SELECT format('grants that have expired: %s', count(*)) FROM a.bud AS g WHERE live AND expires_at < clock_timestamp() AND NOT EXISTS (SELECT FROM a.bud_reservation WHERE state = 'open' AND g.grant_id = ANY (grants)) HAVING count(*) > 0
			UNION ALL SELECT format('expiry: %s pending transfers', count(*)) FROM a.led_pending WHERE state = 'open' AND expires_at < clock_timestamp() HAVING count(*) > 0
		$$;
		GRANT USAGE ON SCHEMA a TO carol, mallory;
		-- the privileges to count, sell and post
		GRANT SELECT, INSERT, UPDATE, DELETE ON a.bud, a.cnt, a.buf, a.idl, a.par, a.hsh, a.onc, a.rep, a.stk, a.led, a.mon, a.log, a.event, a.bnd_src, a.bnd_prt, a.unr, a.unr_seen, a.trd, a.rnk, a.win, a.dis, a.dis_day, a.visit TO carol;
		GRANT SELECT ON a.stk_hold, a.bud_reservation TO carol;
	};
}

# logged_calls: [weight, sub] with SQL for the tables of alice
sub logged_calls
{
	my $counter = sub { pick('cnt', 'cnt', 'buf', 'buf', 'idl', 'par', 'hsh', 'rep', 'rep', 'trd', 'rnk') };

	return (
		[ 8, sub { sprintf "SELECT a.incr('%s', '%s', %d);\n", $counter->(), key('k', 20), num(-5, 20) } ],
		[ 2, sub { sprintf "SELECT a.many('%s', %d);\n", $counter->(), num(1, 9) } ],
		[ 1, sub { sprintf "SELECT a.assign('%s', '%s', %d);\n", pick('cnt', 'par', 'hsh', 'rnk'), key('k', 20), num(0, 100) } ],
		[ 2, sub { my $n = num(1, 100000); sprintf "SELECT a.once('k%d', %d, 'e%d');\n", $n % 20, $n % 9, $n } ],
		[ 1, sub { "SELECT dc_apply();\n" } ],
		[ 3, sub { sprintf "SELECT a.like('%s', 'i%d', %d);\n", key('k', 20), num(1, 8), num(-5, 20) } ],
		[ 2, sub { sprintf "SELECT a.unlike('%s', %d);\n", key('k', 20), num(1, 3) } ],
		[ 2, sub { sprintf "SELECT a.incr('unr', '%s', %d);\n", key('k', 10), num(1, 20) } ],
		[ 2, sub { sprintf "SELECT a.read(%d, '%s', %d);\n", num(1, 5), key('k', 10), num(1, 2000) } ],
		[ 2, sub { sprintf "SELECT a.hit('%s', %d, %s);\n", key('k', 10), num(-2, 9), pick(0, 0, 1, 4, 8, 1000) } ],
		[ 2, sub { sprintf "SELECT a.visit('%s', %d);\n", key('k', 10), pick(num(1, 20), num(1, 100000)) } ],
		[ 1, sub { sprintf "SELECT a.ask('%s', %d);\n", key('k', 10), num(1, 20) } ],
		[ 1, sub { sprintf "SELECT a.come('%s');\n", key('m', 500) } ],
		[ 2, sub { sprintf "SELECT a.restock('%s', %d);\n", key('k', 10), num(1, 20) } ],
		[ 2, sub { sprintf "SELECT a.take('%s', %d);\n", key('k', 10), num(1, 6) } ],
		[ 2, sub { sprintf "SELECT a.hold('%s', %d, '%d ms');\n", key('k', 10), num(1, 4), num(10, 1000) } ],
		[ 1, sub { sprintf "SELECT a.sell(%.3f);\n", rand() } ],
		[ 1, sub { sprintf "SELECT a.grant('%s', %d, 'g%d', %s);\n", key('k', 10), num(0, 2000), num(1, 5), pick("'infinity'", "clock_timestamp() + interval '300 ms'") } ],
		[ 3, sub { sprintf "SELECT a.reserve('%s', %d, '%d ms');\n", key('k', 10), num(1, 60), num(10, 1000) } ],
		[ 3, sub { sprintf "SELECT a.settle(%.3f, %s);\n", rand(), pick('NULL', '0', '0.5', '1', '2') } ],
		# what an event moves follows from its number
		[ 3, sub { my $n = num(1, 1_000_000); sprintf "SELECT a.move('%s', 'bank', 'k%d', %d, 't%d');\n", pick('led', 'mon'), 1 + $n % 4, 1 + $n % 100, $n } ],
		[ 2, sub { my $n = num(1, 1_000_000); sprintf "SELECT a.%s('%s', 'k%d', 'bank', %d, 'u%d');\n", $n % 2 ? 'move' : 'promise', pick('led', 'mon'), 1 + $n % 4, 1 + $n % 100, $n } ]);
}

# forgeries: actions that the rights to post to a ledger must not allow
sub forgeries
{
	my $l = pick('a.led', 'a.mon');

	return pick("UPDATE $l SET inc = inc + 1000 WHERE key = 'k1'", "UPDATE $l SET key = 'k9' WHERE key = 'k2'", "DELETE FROM $l WHERE key = 'k3'", "INSERT INTO $l (key, inc) VALUES ('x" . num(1, 1000000) . "', 5)", "TRUNCATE $l",
		"UPDATE ${l}_account SET min_balance = NULL", "UPDATE ${l}_limit_shard SET units = units + 1", "DELETE FROM ${l}_entry", "UPDATE ${l}_pending SET state = 'posted'") . ";\n";
}

# Keys with bytes that mean something in another type; literals
my @keys = (map({ "'k$_'" } (1 .. 6) x 2), "'bank'", "'-'", "''", "'aaaa'", q{E'\x01\x02AAAAAAAA'}, q{E'\x01\x12AAAAAAAAAAAAAAAA'}, q{E'\x7f\x7f\x7f\x7fAAAAAAAA'}, q{E'\x02AAAA'}, q{repeat('x', 1000)}, q{repeat('y', 200)});
my @ids = (map { "'$_'" } '01024141-4141-4141-4141-414141414141', '01034141-4141-4141-4141-414141414141', '01124141-4141-4141-4141-414141414141', '00ffffff-4141-4141-4141-414141414141',
	'03414141-4141-4141-4141-414141414141', 'f0f0f0f0-4141-4141-4141-414141414141', '02ffff7f-0000-0000-0000-000000000000', map { sprintf '%08x-0000-4000-8000-000000000000', $_ } 1 .. 6);

my ($word, $uuid, $amount) = (
	sub { pick(@keys) }, sub { pick(@ids) }, sub { pick(1, 1, 2, 3, 7, num(-20, 100), 1_000_000, '4702111234474983745', '9223372036854775807') });

# calls_of(SCHEMA): [weight, sub] with SQL that uses its tables, in all ways that there are
sub calls_of
{
	my ($schema) = @_;
	my $table = sub { "'$schema.$_[0]'" };
	# one of several forms: a name, or a sub with the arguments after the table
	my $on = sub { my ($which, @forms) = @_; return sub { my $t = $table->($which->()); my $form = pick(@forms); "SELECT * FROM $form->[0]($t" . join('', map { ', ' . (ref $_ ? $_->() : $_) } @$form[ 1 .. $#$form ]) . ");\n" } };
	# of these tables, those that matter now
	my %now = map { $_ => 1 } focus();
	my $one_of = sub { my @which = @_; return sub { my @good = grep { $now{$_} } @which; pick(@good ? @good : @which) } };
	my $weight = sub { my ($much, @which) = @_; return (grep { $now{$_} } @which) ? $much : $much / 20 };
	my $any = $one_of->(room_names());
	my $counter = $one_of->('cnt', 'cnt', 'buf', 'idl', 'par', 'hsh', 'onc', 'trd', 'rnk');
	my $ledger = $one_of->('led', 'mon');
	my $event = sub { "'e" . num(1, 300) . "'" };
	my $number = sub { num(1, 60) };
	my $source = sub {
		my $item = $word->();
		my $part = num(1, 2);

		# by its function: the server runs triggers and rules as the role that writes to a table
		return "SELECT $schema.write(\$w\$" . pick("INSERT INTO $schema.bnd_src (key, item, n) VALUES (" . $word->() . ", $item, " . $amount->() . ')', "INSERT INTO $schema.bnd_src (key, item) SELECT 'k' || g % 6, 'i' || g FROM generate_series(1, 20) AS g",
			"INSERT INTO $schema.bnd_prt VALUES ($part, " . $word->() . ", $item)", "UPDATE $schema.bnd_src SET key = " . $word->() . ', gone = NOT gone WHERE key = ' . $word->(), "UPDATE $schema.bnd_prt SET part = $part, item = $item WHERE key = " . $word->(),
			"DELETE FROM $schema.bnd_src WHERE key = " . $word->(), "DELETE FROM $schema.bnd_prt WHERE key = " . $word->(), "TRUNCATE $schema." . pick('bnd_src', 'bnd_prt', 'bnd_prt_1')) . "\$w\$);\n";
	};
	my $bound = $one_of->('bnd');
	my $seen = $on->($one_of->('unr'), [ 'dc_mark_read', $word, $word ], [ 'dc_mark_read', $number, $word, $amount ], [ 'dc_mark_read', $word, $word, 'NULL' ], [ 'dc_unread', $word, "'{k1,k2,k3,nobody}'" ], [ 'dc_unread', $number, "'{k1}'" ], [ 'dc_unread_adopt', "'$schema.unr'" ]);
	my $at = sub { pick('clock_timestamp()', "clock_timestamp() - interval '" . num(1, 20) . " s'", "'-infinity'", "'2001-01-01'", "clock_timestamp() + interval '900 ms'") };
	my $window = $on->($one_of->('win'), [ 'dc_incr_at', $word ], [ 'dc_incr_at', $word, $amount ], [ 'dc_incr_at', $word, $amount, $at ], [ 'dc_incr_at', $word, 1, $at ], [ 'dc_window', $word, sub { pick("'1 s'", "'10 s'", "'100 days'") } ], [ 'dc_window', $number, "'4 s'", $at ],
		[ 'dc_buckets', $word, "clock_timestamp() - interval '1 minute'" ], [ 'dc_top_window', "'1 minute'", 5 ], [ 'dc_window_rotate', sub { pick('clock_timestamp()', "clock_timestamp() + interval '10 s'") } ], [ 'dc_window_reopen' ], [ 'dc_window_reconcile', "'2026-01-01'", "'{k1}'::text[]", "'{5}'" ],
		[ 'dc_window_alter', sub { pick("'5 s'", "'6 s'") }, sub { pick("'error'", "'drop'") } ]);
	# counting by item, by text as dc_add() has the name
	my $distinct = sub { my $which = pick('dis', 'dis', 'dis_day'); return "SELECT * FROM " . pick("dc_add('$schema.$which', " . $word->() . ', ' . $amount->() . ')', "dc_add('$schema.$which', " . $word->() . ", 'x" . num(1, 500) . "')", "dc_add('$schema.dis_day', " . $word->() . ', 1, ' . $at->() . ')',
			"dc_add_many('$schema.$which', '{k1,k2,k3}'::text[], ARRAY[" . join(', ', map { num(1, 1000) } 1 .. 3) . '])', "dc_distinct('$schema.$which', " . $word->() . ')', "dc_distinct('$schema.dis_day', " . $word->() . ", '2 days')", "dc_distinct_union('$schema.$which', '{k1,k2,k3}'::text[])",
			"dc_distinct_sketch('$schema.$which', " . $word->() . ')', "dc_distinct_buckets('$schema.dis_day', " . $word->() . ')', "dc_distinct_reset('$schema.$which', " . $word->() . ')', "dc_distinct_alter('$schema.dis_day', '2 days')", "dc_distinct_adopt('$schema.$which')") . ";\n" };
	# any of its counters
	my $on_bound = sub { my $call = $on->($bound, @_); return sub { $call->() =~ s/\.bnd'/"." . pick('bnd', 'bnd', 'bnd_uniq', 'bnd_prts') . "'"/er } };

	# by its name, or its stock's
	my $ends = sub { pick("'infinity'", "clock_timestamp() + interval '" . num(-5, 300) . " ms'", "'-infinity'") };
	my $budget = $on->($one_of->('bud'), [ 'dc_grant', $word, $amount, $event, $ends, sub { num(-1, 2) } ], [ 'dc_grant', $number, $amount, $event ], [ 'dc_allowance', $word, $amount, sub { pick("'1 second'", "'1 month'") } ],
		[ 'dc_reserve', $word, $amount, $uuid, sub { pick("'20 ms'", "'1 hour'") } ], [ 'dc_reserve', $word, $amount, 'gen_random_uuid()', "'20 ms'", 1 ], [ 'dc_reserve_all', sub { "'{k2,k1,k3}', '{1,2,1}'" }, $uuid, sub { pick("'20 ms'", "'1 hour'") } ],
		[ 'dc_settle', $uuid, $amount ], [ 'dc_settle', $uuid, sub { "'{" . num(0, 20) . ',' . num(0, 20) . "}'::bigint[]" } ], [ 'dc_settle', $uuid, 1, 'false' ], [ 'dc_release', $uuid ], [ 'dc_budget', $word ], ['dc_budget_check'], ['dc_budget_adopt']);
	my $pool = $on->($one_of->('bud'), [ 'dc_restock', $number, $amount ], [ 'dc_take', $number, $amount ], [ 'dc_take_up_to', $number, $amount ], [ 'dc_set', $number, $amount ], [ 'dc_delete', $number ], [ 'dc_restock', "'-k1'", $amount ], ['dc_compact'], ['dc_holds']);

	return (
		[ $weight->(16, 'bnd'), $source ],
		[ $weight->(14, 'bud'), $budget ],
		[ $weight->(2, 'bud'), sub { $pool->() =~ s/\.bud'/.bud_pool'/r } ],
		[ $weight->(8, 'bnd'), $on_bound->([ 'dc_get', $word ], ['dc_sum'], [ 'dc_info', $word ], ['dc_source_check'], ['dc_source_check'], [ 'dc_source_check', "'{k1,k2,nobody}'" ], [ 'dc_source_check', 'NULL', "'k2'" ], [ 'dc_source_fix', "'{k1,k2}'" ], ['dc_compact'], [ 'dc_incr', $word ], ['dc_unbind']) ],
		[ $weight->(2, 'bnd'), sub { sprintf "CALL dc_build('$schema.%s', %d);\n", pick('bnd', 'bnd_uniq', 'bnd_prts'), num(1, 9) } ],
		[ $weight->(10, 'cnt', 'buf', 'idl', 'par', 'hsh', 'onc', 'trd', 'rnk'), $on->($counter, [ 'dc_incr', $word, $amount ], [ 'dc_incr', $word ], [ 'dc_decr', $word, $amount ], [ 'dc_incr_hashed', $word, $word ], [ 'dc_incr_returning', $word, $amount ], [ 'dc_incr', $number ], [ 'dc_incr', sub { 'uuid ' . $uuid->() } ],
				[ 'dc_incr_many', sub { 'ARRAY[' . join(', ', map { $word->() } 1 .. num(1, 5)) . ']' } ]) ],
		[ 3, sub { "SELECT dc_apply();\n" } ],
		[ 6, $on->($any, [ 'dc_get', $word ], [ 'dc_get', $word, "interval '1 s'" ], [ 'dc_get_many', sub { "'{k1,k2,k3,bank}'" } ], [ 'dc_get_many', sub { "'{k1,k2,k3}'" }, "interval '1 s'" ], [ 'dc_info', $word ], [ 'dc_total', $word ], ['dc_top'], [ 'dc_top', 3 ], ['dc_sum'] ) ],
		[ 3, $on->($one_of->('cnt', 'buf', 'idl', 'par', 'hsh', 'onc', 'stk', 'trd', 'rnk'), [ 'dc_set', $word, $amount ], [ 'dc_reset', $word ], [ 'dc_delete', $word ]) ],
		[ $weight->(12, 'rnk'), $on->($one_of->('rnk'), [ 'dc_rank', $word ], [ 'dc_rank', $number ], [ 'dc_around', $word ], [ 'dc_around', $word, 0 ], [ 'dc_at_rank', sub { num(1, 9) }, 3 ], [ 'dc_at_rank', $amount, $amount ], ['dc_compact'],
				['dc_rank_drop'], [ 'dc_rank_create', sub { pick("'now'", "'none'", "'worker'") } ]) ],
		[ $weight->(1, 'rnk'), sub { sprintf "CALL dc_build('$schema.rnk_rank', %d);\n", num(1, 9) } ],
		[ $weight->(6, 'trd'), $on->($one_of->('trd'), ['dc_trending'], [ 'dc_trending', 3 ], [ 'dc_alter', sub { pick(q{trend => '1 hour'}, q{trend => '1 day'}, q{trend => '0'}, 'sample => 4', 'sample => 1') } ], ['dc_compact']) ],
		[ $weight->(3, 'idl'), $on->($one_of->('idl'), [ 'dc_alter', sub { pick(map { "idle => '$_'" } '1 ms', '20 ms', '1 hour', '36525 days', '0') . pick('', q{, mode => 'buffered'}, q{, mode => 'exact'}, q{, trend => '1 hour'}, q{, trend => '0'}) } ], ['dc_compact']) ],
		[ $weight->(6, 'onc'), $on->($one_of->('onc', 'onc', 'cnt', 'par'), [ 'dc_incr_once', $word, $amount, $event ], [ 'dc_op_status', $event ], [ 'dc_incr_once_many', sub { "'{k1,k2}', '{1,2}', ARRAY[" . $event->() . ', ' . $event->() . ']' } ]) ],
		[ $weight->(14, 'rep'), $on->($one_of->('rep'), [ 'dc_incr', $word, $amount ], [ 'dc_incr', $word ], [ 'dc_decr', $word, $amount ], [ 'dc_get', $word ], [ 'dc_get_regions', $word ], ['dc_region_check'], ['dc_region_repair'], ['dc_compact'], ['dc_unreplicate'], [ 'dc_replicate', 'true' ], ['dc_adopt'] ) ],
		[ $weight->(14, 'rst'), $on->($one_of->('rst'), [ 'dc_restock', $word, $amount ], [ 'dc_take', $word ], [ 'dc_take', $word, $amount ], [ 'dc_want', $word, $amount ], [ 'dc_want', $word, 0 ], [ 'dc_stock_regions', $word ], [ 'dc_rights_reclaim', "'there'" ], ['dc_unreplicate'], [ 'dc_replicate', 'true' ] ) ],
		[ $weight->(2, 'rst'), sub { sprintf "CALL dc_take_wait('$schema.rst', %s, %s, '100 ms');\n", $word->(), pick(1, 5, 5000) } ],
		[ $weight->(12, 'stk'), $on->($one_of->('stk'), [ 'dc_restock', $word, $amount ], [ 'dc_take', $word ], [ 'dc_take', $word, $amount, 'true' ], [ 'dc_take_up_to', $word, $amount ], [ 'dc_take_all', sub { "'{k1,k2}', '{1,2}'" } ],
				[ 'dc_hold', $word, $number, sub { pick("'20 ms'", "'1 s'", "'1 hour'") }, $uuid ], [ 'dc_hold', $word, 1, "'20 ms'" ], [ 'dc_hold_all', sub { "'{k2,k1,k3}', '{1,2,1}'" }, sub { pick("'20 ms'", "'1 s'", "'1 hour'") }, $uuid ],
				[ 'dc_hold_confirm', $uuid ], [ 'dc_hold_confirm', $uuid, 1 ], [ 'dc_hold_confirm', $uuid, 9 ], [ 'dc_hold_release', $uuid ], ['dc_holds'], [ 'dc_holds', $word ]) ],
		[ $weight->(14, 'led', 'mon'), $on->($ledger, [ 'dc_account_open', $word, $amount ], [ 'dc_transfer', $word, $word, $amount, $event ], [ 'dc_transfer', "'bank'", $word, $amount, $event, q{'{"a": 1}'} ],
				[ 'dc_transfer_many', sub { "'{bank,bank,k1}', '{k1,k2,k3}', '{10,20,5}'" }, $event ],
				[ 'dc_transfer_pending', "'bank'", $word, $amount, $event, 'NULL', sub { pick("'20 ms'", "'1 hour'", 'NULL') } ], [ 'dc_transfer_post', $number ], [ 'dc_transfer_post', $number, $amount ], [ 'dc_transfer_void', $number ],
				[ 'dc_balance', $word ], [ 'dc_balance_at', $word, 'now()' ], [ 'dc_account_statement', $word, "'-infinity'", "'infinity'" ], ['dc_ledger_check'], [ 'dc_sum' ]) ],
		[ $weight->(14, 'win'), $window ],
		[ $weight->(1, 'win'), sub { "CALL dc_seal('$schema.win', clock_timestamp() - interval '" . num(1, 20) . " s');\n" } ],
		[ $weight->(2, 'win'), sub { sprintf "SELECT * FROM %s('$schema.win_w%d'%s);\n", pick('dc_incr', 'dc_get', 'dc_info', 'dc_delete'), num(0, 15), ", 'k1'" } ],
		[ $weight->(16, 'dis'), $distinct ],
		[ $weight->(14, 'unr'), sub { $seen->() =~ s/\.unr'/.unr_seen'/r } ],
		[ $weight->(6, 'unr'), $on->($one_of->('unr'), [ 'dc_incr', $word, $amount ], [ 'dc_set', $word, $amount ], [ 'dc_delete', $word ], [ 'dc_get', $word ]) ],
		[ 1, $on->($any, ['dc_compact'], [ 'dc_compact', 3 ], ['dc_flush'], ['dc_stat_reset']) ]);
}

# odd_calls(SCHEMA, N): [room, statement], N of them for each room, for code that makes calls
sub odd_calls
{
	my ($schema, $n) = @_;
	my @all;

	foreach my $room (room_names())
	{
		local $ENV{OWNERS_FOCUS} = $room;
		my @calls = calls_of($schema);

		push @all, map { [ $room, weighted(@calls)->() =~ s/\bdc_/public.dc_/gr =~ s/;\n//r ] } 1 .. $n;
	}
	return @all;
}

1;
