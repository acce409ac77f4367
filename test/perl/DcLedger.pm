# Shared by the tests of ledgers: a ledger "wallet" of 100 accounts and a bank, and
# transfers whose arguments follow from their op, so that any client can send one again and knows
# what it should have posted.
package DcLedger;

use strict;
use warnings;

use DcTest;
use Exporter 'import';
use Test::More;

our @EXPORT = qw(ledger_node ledger_is_sound ledger_state bank_scripts);

my $schema = q{
	SELECT dc_ledger_create('wallet');
	SELECT dc_account_open('wallet', 'bank', NULL);
	-- Bounded below and above, below only, with a credit, not at all
	SELECT dc_account_open('wallet', 'a' || i, CASE WHEN i % 5 = 0 THEN NULL WHEN i % 5 = 1 THEN -500 ELSE 0 END, CASE WHEN i % 5 = 2 THEN 1500 END)
	FROM generate_series(1, 100) AS i;
	SELECT dc_transfer_many('wallet', array_agg('bank'::text), array_agg('a' || i), array_agg(1000), 'start') FROM generate_series(1, 100) AS i;
	CREATE SEQUENCE duplicates;

	-- A number from 0 to n - 1, the salt-th one of an op
	CREATE FUNCTION pick(e text, salt bigint, n bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
		SELECT (hashtextextended(e, salt) & 1152921504606846975) % n $$;
	-- What an op moves
	CREATE FUNCTION lines(e text, OUT froms text[], OUT tos text[], OUT amounts bigint[], OUT pending boolean) LANGUAGE sql IMMUTABLE AS $$
		WITH line AS (SELECT i, pick(e, 10 * i + 1, 100) AS f, pick(e, 10 * i + 2, 99) AS t, 1 + pick(e, 10 * i + 3, 300) AS amount
			FROM generate_series(1, CASE WHEN pick(e, 0, 10) IN (6, 7) THEN 3 ELSE 1 END) AS i)
		SELECT array_agg('a' || f + 1 ORDER BY i), array_agg('a' || (f + 1 + t) % 100 + 1 ORDER BY i), array_agg(amount ORDER BY i), pick(e, 0, 10) >= 8 FROM line $$;

	-- Posts it: "new", "duplicate", or "refused" for lack of balance or place
	CREATE FUNCTION post(e text, OUT what text, OUT id bigint) LANGUAGE plpgsql AS $$
	DECLARE
		l record; d boolean;
	BEGIN
		SELECT * INTO l FROM lines(e);
		IF l.pending THEN
			SELECT transfer_id, duplicate INTO id, d FROM dc_transfer_pending('wallet', l.froms[1], l.tos[1], l.amounts[1], e, NULL,
				CASE pick(e, 5, 3) WHEN 0 THEN NULL WHEN 1 THEN interval '20 ms' ELSE interval '1 day' END);
		ELSIF cardinality(l.froms) > 1 THEN
			SELECT transfer_id, duplicate INTO id, d FROM dc_transfer_many('wallet', l.froms, l.tos, l.amounts, e);
		ELSE
			SELECT transfer_id, duplicate INTO id, d FROM dc_transfer('wallet', l.froms[1], l.tos[1], l.amounts[1], e, '{"by": "test"}');
		END IF;
		what := CASE WHEN d THEN 'duplicate' ELSE 'new' END;
		IF d THEN
			PERFORM nextval('duplicates');
		END IF;
	EXCEPTION WHEN SQLSTATE 'LG001' OR SQLSTATE 'LG002' THEN
		what := 'refused';
	END $$;

	-- Posts a pending transfer, or a part of it. That it was posted with another amount is an error
	CREATE FUNCTION post_pending(id bigint, part bigint = NULL) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		RETURN dc_transfer_post('wallet', id, part);
	EXCEPTION WHEN unique_violation THEN
		IF EXISTS (SELECT FROM wallet_pending WHERE transfer_id = id AND state = 'posted' AND posted <> coalesce(part, amount)) THEN
			RETURN 'posted with another amount';
		END IF;
		RAISE;
	END $$;

	-- What is wrong in one snapshot, all accounts together
	CREATE FUNCTION wrong_sums() RETURNS SETOF text LANGUAGE sql STABLE AS $$
		WITH b AS MATERIALIZED (SELECT a.*, b.* FROM wallet_account AS a, dc_balance('wallet', a.key) AS b)
		SELECT format('balances %s, dc_sum %s, entries %s, pending out %s, in %s', s.balance, dc_sum('wallet'), e.amount, s.o, s.i)
		FROM (SELECT sum(balance) AS balance, sum(pending_out) AS o, sum(pending_in) AS i FROM b) AS s, (SELECT coalesce(sum(amount), 0) AS amount FROM wallet_entry) AS e
		WHERE s.balance <> 0 OR dc_sum('wallet') <> 0 OR e.amount <> 0 OR s.o <> s.i
		UNION ALL SELECT format('bounds of %s', b) FROM b WHERE balance - pending_out < min_balance OR balance + pending_in > max_balance OR available IS DISTINCT FROM balance - pending_out - min_balance $$;
	CREATE FUNCTION check_snapshot() RETURNS void LANGUAGE plpgsql STABLE AS $$
	DECLARE
		bad text := (SELECT string_agg(w, E'\n') FROM wrong_sums() AS w);
	BEGIN
		IF bad IS NOT NULL THEN
			RAISE 'wrong in a snapshot: %', bad;
		END IF;
	END $$;

	-- What is wrong in the books: each op is one transfer, and each transfer what its op says
	CREATE FUNCTION wrong() RETURNS SETOF text LANGUAGE sql STABLE AS $$
		SELECT 'check: ' || c FROM dc_ledger_check('wallet') AS c
		UNION ALL SELECT wrong_sums()
		UNION ALL
		SELECT format('op %s, transfer %s: %s', op_id, transfer_id, posted) FROM (
			SELECT op_id, transfer_id, array_agg(key || ' ' || amount ORDER BY entry_id) AS posted FROM wallet_entry AS e
			WHERE op_id <> 'start' AND NOT EXISTS (SELECT FROM wallet_pending AS p WHERE p.transfer_id = e.transfer_id) GROUP BY op_id, transfer_id) AS t
		WHERE posted IS DISTINCT FROM (SELECT array_agg(u.line ORDER BY n, side) FROM lines(op_id) AS l, unnest(l.froms, l.tos, l.amounts) WITH ORDINALITY AS x(f, t, a, n),
			LATERAL (VALUES (1, f || ' ' || -a), (2, t || ' ' || a)) AS u(side, line) WHERE NOT l.pending)
		UNION ALL
		SELECT format('pending %s: %s', p.op_id, p) FROM wallet_pending AS p, lines(op_id) AS l
		WHERE NOT l.pending OR (l.froms[1], l.tos[1], l.amounts[1]) <> (from_key, to_key, amount) OR posted > amount OR (state = 'posted') <> (posted > 0) OR (state = 'open') <> (ended_at IS NULL)
		UNION ALL
		SELECT format('transfer %s of op %s: %s entries', transfer_id, op_id, n) FROM (
			SELECT transfer_id, max(op_id) AS op_id, count(*) AS n FROM wallet_entry WHERE op_id <> 'start' GROUP BY 1) AS e
		WHERE n NOT IN (2, 6)
		UNION ALL
		SELECT format('op %s: recorded %s times as %s, posted %s times as %s', coalesce(v.op_id, t.op_id), v.n, v.ids, t.n, t.ids) FROM
			(SELECT op_id, count(*) AS n, array_agg(transfer_id) AS ids FROM wallet_op GROUP BY 1) AS v FULL JOIN
			(SELECT op_id, count(*) AS n, array_agg(transfer_id) AS ids FROM (SELECT op_id, transfer_id FROM wallet_entry UNION SELECT op_id, transfer_id FROM wallet_pending) AS u GROUP BY 1) AS t
			ON v.op_id = t.op_id WHERE v.n IS DISTINCT FROM 1 OR t.n IS DISTINCT FROM 1 OR v.ids <> t.ids $$;};

# ledger_node(NAME, PRELOAD, CONF...): a server with that ledger
sub ledger_node
{
	my ($name, $preload, @conf) = @_;
	my $node = dc_node($name, init => { allows_streaming => 'logical' },
		conf => [ 'max_connections = 120', 'autovacuum_naptime = 1s', 'deadlock_timeout = 100ms', 'restart_after_crash = on',
			'max_pred_locks_per_transaction = 256',
			($preload ? ("shared_preload_libraries = 'dcounter'", "dcounter.compact_interval = '100ms'", "dcounter.expire_interval = '50ms'") : ()), @conf ]);

	sql($node, 'postgres', $schema);
	return $node;
}

# ledger_is_sound(NODE, DATABASE, NAME): nothing is wrong in it; and all ops sent again
# change nothing
sub ledger_is_sound
{
	my ($node, $database, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(sql($node, $database, 'SELECT * FROM wrong() LIMIT 5'), '', "$name: the books are right");
	my $state = ledger_state($node, $database);

	is(sql($node, $database, q{
		SELECT p.*, v.op_id, v.transfer_id FROM wallet_op AS v, post(v.op_id) AS p
		WHERE v.op_id <> 'start' AND (p.what, p.id) IS DISTINCT FROM ('duplicate', v.transfer_id) LIMIT 5}), '', "$name: each op is known");
	is(ledger_state($node, $database), $state, "$name: sent again they change nothing");
	return;
}

# ledger_state(NODE, DATABASE): all balances, and how many entries there are
sub ledger_state
{
	my ($node, $database) = @_;

	return sql($node, $database, q{
		SELECT md5(string_agg(a.key || b.balance, ' ' ORDER BY a.key)), (SELECT count(*) || ' ' || sum(entry_id) FROM wallet_entry), (SELECT count(*) FROM wallet_op)
		FROM wallet_account AS a, dc_balance('wallet', a.key) AS b});
}

# bank_scripts(ROUND, RANGE): options for pgbench. Ops of one round are from a range
# that is small, or new.
sub bank_scripts
{
	my ($round, $range) = @_;
	my $head = "\\set n random(1, $range)\n\\set new random(1, 1000000000000000)\n\\set part random(1, 300)\n\\set pause random(0, 20)\n";
	my $again = "'$round dup :n'";
	my $new = "'$round new :new'";
	my $some = 'coalesce((SELECT transfer_id FROM wallet_pending WHERE transfer_id >= :part * 20 ORDER BY transfer_id LIMIT 1), 0)';
	my %weight = (
		"SELECT post($again);" => 10,
		"SELECT post($new);" => 8,
		"BEGIN;\nSELECT post($again);\nROLLBACK;" => 2,
		"BEGIN;\nSAVEPOINT a;\nSELECT post($again);\nROLLBACK TO a;\nSELECT post($again);\nCOMMIT;" => 2,
		"SELECT coalesce(max(id), 0) AS p FROM post($again) \\gset\n\\sleep :pause ms\nSELECT post_pending(:p);" => 3,
		"SELECT coalesce(max(id), 0) AS p FROM post($again) \\gset\n\\sleep :pause ms\nSELECT dc_transfer_void('wallet', :p);" => 2,
		"SELECT post_pending(p.id, least(:part, (SELECT amount FROM wallet_pending WHERE transfer_id = p.id))) FROM (SELECT $some AS id) AS p;" => 2,
		"SELECT dc_transfer_void('wallet', $some);" => 2);
	my $i = 0;

	return map { ('-f', file_of("bank $round " . ++$i . '.sql', "$head$_\n") . "\@$weight{$_}") } sort keys %weight;
}

1;
