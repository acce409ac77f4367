# Room of make chaos: rate limits.
#
# A limit keeps its counts if the transaction rolls back; the log has only committed ones.
# So at least as much of each key is used as the log says, and the limit is never
# exceeded. The rules refill so slowly that neither the run nor a step of the clock while the server is down
# matters, and take budgets for used up after a crash: the comparison holds over all faults.
# Leases are taken and given back beside that, with nothing to compare.
package DcChaos::Room::Limit;

use strict;
use warnings;

use DcChaos::Mix;

my $schema = q{
	SELECT dc_limit_create('l_gcra', 'gcra', 20, '1000 days', after_crash => 'full'), dc_limit_create('l_fixed', 'fixed', 20, '1000 days', after_crash => 'full'),
		dc_limit_create('l_log', 'log', 20, '1000 days', after_crash => 'full'), dc_limit_create('l_jobs', 'concurrent', 3, '1000 days', after_crash => 'open');
	CREATE TABLE log_limit (rule text, key text, units bigint);
	CREATE FUNCTION l_ask(r text, k text, n bigint) RETURNS void LANGUAGE sql AS $$
		INSERT INTO log_limit SELECT r, k, n FROM dc_limit(r, k, n) WHERE allowed;
	$$;
	CREATE FUNCTION l_all(k text, n bigint) RETURNS void LANGUAGE sql AS $$
		INSERT INTO log_limit SELECT r, k, n FROM dc_limit_all('{l_gcra,l_fixed,l_log}', ARRAY[k, k, k], ARRAY[n, n, n]) AS a, unnest('{l_gcra,l_fixed,l_log}'::text[]) AS r WHERE a.allowed;
	$$;
	CREATE FUNCTION l_job(k text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		l record;
	BEGIN
		SELECT * INTO l FROM dc_limit('l_jobs', k);
		IF l.allowed THEN
			-- it may be gone by now: the key was reset
			PERFORM dc_limit_renew('l_jobs', k, l.lease), dc_limit_release('l_jobs', k, l.lease);
		END IF;
	END $$;
	CREATE VIEW limit_wrong AS
		SELECT format('%s %s: %s remain, log %s', l.rule, l.key, p.remaining, l.units) AS line
		FROM (SELECT rule, key, sum(units) AS units FROM log_limit GROUP BY rule, key) AS l, dc_limit_peek(l.rule, l.key) AS p
		WHERE 20 - p.remaining < l.units OR l.units > 20;
};

sub room
{
	return {
		name => 'limit',
		schema => $schema,
		steps => [
			[ 0.5, sub { sprintf "SELECT l_ask('%s', 'key %d', %d);\n", pick('l_gcra', 'l_fixed', 'l_log'), num(1, 500), num(1, 4) } ],
			[ 0.3, sub { sprintf "SELECT l_all('key %d', %d);\n", num(1, 500), num(1, 2) } ],
			[ 0.1, sub { sprintf "SELECT l_job('%s');\n", key('j', 4) } ] ],
		# leases of sessions that were killed stay
		alone => [ [ 0.05, sub { sprintf "SELECT dc_limit_reset('l_jobs', '%s');\n", key('j', 4) } ] ],
		alters => sub { sprintf "SELECT dc_limit_alter('%s', max_keys => %d)", pick('l_gcra', 'l_fixed', 'l_log'), num(1000, 2000) },
		wrong => 'SELECT line FROM limit_wrong',
	};
}

1;
