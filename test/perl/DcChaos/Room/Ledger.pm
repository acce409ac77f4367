# Room of make chaos: ledgers.
#
# The name of an event determines what it moves, and clients send old events again. The log has
# each event once (its primary key), written by the transaction that posted it, and how
# pending transfers ended. So every balance is the sum of what the log says, money is
# conserved, no account is beyond its bounds, and an answer "duplicate" is right only if the
# log has the same transfer. dc_ledger_check() compares balances with entries.
package DcChaos::Room::Ledger;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_ledger_create('wallet');
	SELECT dc_account_open('wallet', 'bank', NULL);
	-- Bounded below and above, below only, with a credit, not at all
	SELECT dc_account_open('wallet', 'a' || i, CASE WHEN i % 5 = 0 THEN NULL WHEN i % 5 = 1 THEN -500 ELSE 0 END, CASE WHEN i % 5 = 2 THEN 1500 END)
	FROM generate_series(0, 19) AS i;
	CREATE TABLE log_ledger (event text PRIMARY KEY, transfer bigint UNIQUE, froms text[], tos text[], amounts bigint[], pending bool);
	CREATE TABLE log_ended (transfer bigint PRIMARY KEY, amount bigint);    -- of pending ones; 0: given back
	SELECT dc_transfer_many('wallet', array_agg('bank'::text), array_agg('a' || i), array_agg(1000), 'start') FROM generate_series(0, 19) AS i;
	INSERT INTO log_ledger SELECT 'start', (SELECT transfer_id FROM wallet_op), array_agg('bank'::text), array_agg('a' || i), array_agg(1000), false FROM generate_series(0, 19) AS i;

	-- A number from 0 to n - 1, the salt-th one of an event
	CREATE FUNCTION l_pick(e text, salt bigint, n bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
		SELECT (hashtextextended(e, salt) & 1152921504606846975) % n $$;
	CREATE FUNCTION l_post(e text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		lines int := CASE WHEN l_pick(e, 0, 10) < 7 THEN 1 ELSE 3 END;
		f text[]; t text[]; a bigint[]; id bigint; again bool;
		pending bool := lines = 1 AND l_pick(e, 1, 4) = 0;
	BEGIN
		SELECT array_agg('a' || l_pick(e, 10 * i, 20)), array_agg('a' || (l_pick(e, 10 * i, 20) + 1 + l_pick(e, 10 * i + 1, 19)) % 20), array_agg(1 + l_pick(e, 10 * i + 2, 300))
		INTO f, t, a FROM generate_series(1, lines) AS i;
		BEGIN
			IF pending THEN
				SELECT transfer_id, duplicate INTO STRICT id, again FROM dc_transfer_pending('wallet', f[1], t[1], a[1], e, NULL,
					CASE l_pick(e, 2, 3) WHEN 0 THEN NULL WHEN 1 THEN interval '100 ms' ELSE interval '1 day' END);
			ELSIF lines > 1 THEN
				SELECT transfer_id, duplicate INTO STRICT id, again FROM dc_transfer_many('wallet', f, t, a, e);
			ELSE
				SELECT transfer_id, duplicate INTO STRICT id, again FROM dc_transfer('wallet', f[1], t[1], a[1], e, '{"by": "chaos"}');
			END IF;
		EXCEPTION WHEN SQLSTATE 'LG001' OR SQLSTATE 'LG002' THEN
			RETURN;
		END;
		IF NOT again THEN
			INSERT INTO log_ledger VALUES (e, id, f, t, a, pending);
		ELSIF NOT EXISTS (SELECT FROM log_ledger WHERE event = e AND transfer = id) THEN
			RAISE SQLSTATE 'CHAOS' USING MESSAGE = format('event %s is called a duplicate, as transfer %s, and is not in the log', e, id);
		END IF;
	END $$;
	-- Posts a part of any pending transfer, or gives it back
	CREATE FUNCTION l_end(nth float8, part float8) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		p record; answer text;
	BEGIN
		SELECT transfer_id, amount INTO p FROM wallet_pending WHERE state = 'open' OR random() < 0.01
		OFFSET nth * (SELECT count(*) FROM wallet_pending WHERE state = 'open') LIMIT 1;
		IF p IS NULL THEN
			RETURN;
		END IF;
		BEGIN
			answer := CASE WHEN part IS NULL THEN dc_transfer_void('wallet', p.transfer_id) ELSE dc_transfer_post('wallet', p.transfer_id, ceil(part * p.amount)::bigint) END;
		EXCEPTION WHEN unique_violation THEN
			-- it must have been posted with another amount
			IF EXISTS (SELECT FROM wallet_pending WHERE transfer_id = p.transfer_id AND state = 'posted' AND posted <> ceil(part * p.amount)) THEN
				RETURN;
			END IF;
			RAISE;
		END;
		IF answer = (CASE WHEN part IS NULL THEN 'voided' ELSE 'posted' END) THEN
			INSERT INTO log_ended VALUES (p.transfer_id, CASE WHEN part IS NULL THEN 0 ELSE ceil(part * p.amount) END);
		ELSIF answer NOT IN ('expired', 'posted', 'voided', 'posted already', 'voided already') THEN
			RAISE SQLSTATE 'CHAOS' USING MESSAGE = format('ending transfer %s: %s', p.transfer_id, answer);
		END IF;
	END $$;

	CREATE FUNCTION l_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		WITH b AS MATERIALIZED (SELECT a.*, b.* FROM wallet_account AS a, dc_balance('wallet', a.key) AS b),
		line AS (
			SELECT l.transfer, f, t, CASE WHEN pending THEN coalesce(e.amount, 0) ELSE a END AS amount, CASE WHEN p.state = 'open' AND coalesce(p.expires_at, 'infinity') > statement_timestamp() THEN p.amount ELSE 0 END AS open
			FROM log_ledger AS l CROSS JOIN LATERAL unnest(froms, tos, amounts) AS u(f, t, a) LEFT JOIN log_ended AS e ON pending AND e.transfer = l.transfer
			LEFT JOIN wallet_pending AS p ON p.transfer_id = l.transfer),
		log AS (SELECT key, sum(amount) AS amount, sum(o) AS o, sum(i) AS i FROM (
			SELECT f, -amount, open, 0 FROM line UNION ALL SELECT t, amount, 0, open FROM line) AS u(key, amount, o, i) GROUP BY key)
		SELECT format('account %s: balance %s, log %s; pending out %s, log %s; pending in %s, log %s; bounds %s to %s', key, balance, l.amount, pending_out, l.o, pending_in, l.i, min_balance, max_balance)
		FROM b LEFT JOIN log AS l USING (key)
		WHERE balance <> coalesce(l.amount, 0) OR pending_out <> coalesce(l.o, 0) OR pending_in <> coalesce(l.i, 0)
			OR balance - pending_out < min_balance OR balance + pending_in > max_balance OR available IS DISTINCT FROM balance - pending_out - min_balance
		UNION ALL SELECT 'dc_sum is ' || dc_sum('wallet') WHERE dc_sum('wallet') <> 0
		UNION ALL SELECT 'dc_ledger_check: ' || c FROM dc_ledger_check('wallet') AS c
		UNION ALL SELECT format('event %s: transfer %s, log %s', coalesce(v.op_id, l.event), v.transfer_id, l.transfer)
		FROM wallet_op AS v FULL JOIN log_ledger AS l ON l.event = v.op_id WHERE v.transfer_id IS DISTINCT FROM l.transfer
		UNION ALL SELECT format('pending transfer %s is %s with %s, log %s', l.transfer, p.state, p.posted, e.amount)
		FROM log_ledger AS l LEFT JOIN wallet_pending AS p ON p.transfer_id = l.transfer LEFT JOIN log_ended AS e ON e.transfer = l.transfer
		WHERE l.pending AND (p.state IS NULL OR CASE WHEN e.amount > 0 THEN p.state <> 'posted' OR p.posted <> e.amount
			WHEN e.amount = 0 THEN p.state <> 'voided' ELSE p.state NOT IN ('open', 'expired') END)
	$$;
};

my $idle = q{SELECT format('pending transfer %s should have expired at %s', transfer_id, expires_at) FROM wallet_pending WHERE state = 'open' AND expires_at < clock_timestamp() - interval '1 s'};

# event(ME): a new one, or one of a few that many send
sub event
{
	my ($me) = @_;

	return chance(0.7) ? "$me " . num(1, 1_000_000_000) =~ s/'//gr : 'event ' . num(1, 400);
}

sub room
{
	return {
		name => 'ledger',
		schema => $schema,
		steps => [
			[ 10, sub { sprintf "SELECT l_post('%s');\n", event($_[0]) =~ s/'//gr } ],
			[ 3, sub { sprintf "SELECT l_end(%.3f, %s);\n", rand(), chance(0.5) ? 'NULL' : sprintf('%.2f', 0.01 + rand(0.98)) } ],
		],
		alone => [ [ 0.3, sub { sprintf "SELECT dc_account_open('wallet', 'a%d', %d);\n", 5 * num(0, 3) + 1, num(-600, -500) } ] ],
		# new bounds that the balance is not within, or that others wait for
		allowed => '^LG00[12]: ',
		tables => [ 'wallet', 'wallet_shard', 'wallet_limit', 'wallet_limit_shard' ],
		snapshot => 1,
		wrong => 'SELECT l_wrong()',
		idle => $idle,
	};
}

1;
