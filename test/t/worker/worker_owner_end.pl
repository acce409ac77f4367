# An end to the code that owners have put on their tables (dcounter.worker_runs_owner_code is on, see
# worker/worker_owner.pl): where the worker leaves it alone or says what is wrong, owners who
# may not even connect, code that does not end, and code that drops the extension.
use strict;
use warnings;

use DcOwner;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = owner_node();

create_others('before');
as_mallory(q{SELECT public.dc_create('mallory.worst_message', totals => 'compacted')});
create_others('after');
sql($node, 'evil', q{SELECT dc_worker_stop(); SELECT dc_incr('mallory.worst_message', 'a'); CALL dc_maintain(); SELECT dc_incr('mallory.worst_message', 'a')});
as_mallory(worst_message());
mislead();

my %counted;

## Where it does not come to that

# goes_on(NAME): tests that the worker compacts tables of others
sub goes_on
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $counted = ++$counted{'vera.before'};

	$counted{'boss.after'}++;
	sql($node, 'evil', "SELECT dc_incr('vera.before', 'a'), dc_incr('boss.after', 'a')");
	return eventually('evil', "SELECT (dc_total('vera.before', 'a')).value = $counted AND (dc_total('boss.after', 'a')).value = $counted{'boss.after'}", $name);
}

as_mallory(q{SELECT public.dc_create('mallory.secured', totals => 'compacted'), public.dc_create('mallory.altered', totals => 'compacted'), public.dc_create('mallory.converted', totals => 'compacted')});
sql($node, 'evil', q{SELECT dc_incr('mallory.secured', 'a', 3), dc_incr('mallory.altered', 'a', 3), dc_incr('mallory.converted', 'a', 3)});
as_mallory(q{
	ALTER TABLE mallory.altered_shard ALTER inc TYPE numeric;
	CREATE POLICY p ON mallory.secured USING (mallory.test('policy')) WITH CHECK (mallory.test('policy'));
	CREATE POLICY p ON mallory.secured_shard USING (mallory.test('policy')) WITH CHECK (mallory.test('policy'));
	ALTER TABLE mallory.secured ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
	ALTER TABLE mallory.secured_shard ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY});
if ($node->pg_version < 16)
{
	# a table becomes a view
	as_mallory(q{
		ALTER TABLE mallory.converted DROP CONSTRAINT converted_pkey;
		DROP TRIGGER dcounter_truncate ON mallory.converted;
		VACUUM mallory.converted;
		CREATE RULE "_RETURN" AS ON SELECT TO mallory.converted DO INSTEAD
			SELECT key, inc, dec, inc - dec AS value, updated_at FROM mallory.converted_shard WHERE mallory.test('view')});
}
my $offset = -s $node->logfile;
is(sql($node, 'evil', 'SELECT dc_worker_start()'), 't', 'the worker is started');
goes_on('row-level security and wrong columns: tables of others are compacted');
my $runs = sql($node, 'evil', "SELECT runs FROM ($worker) AS w");
eventually('evil', "SELECT runs >= $runs + 2 FROM ($worker) AS w", 'again and again');
my $log = slurp_file($node->logfile, $offset);
unlike($log, qr/spy\|(?!message)/, 'nothing of its own runs');
is(join('', grep { !/on "worst_message" failed/ } errors($log)), '', 'and nothing fails');
as_mallory('ALTER TABLE mallory.secured DISABLE ROW LEVEL SECURITY; ALTER TABLE mallory.secured_shard DISABLE ROW LEVEL SECURITY');
as_mallory('ALTER TABLE mallory.altered_shard ALTER inc TYPE bigint');
eventually('evil', "SELECT (dc_total('mallory.secured', 'a')).value = 3", 'without row-level security it is compacted');
eventually('evil', "SELECT (dc_total('mallory.altered', 'a')).value = 3", 'with the right columns it is compacted');
# Wherever it is cut off
foreach my $length (1, 2)
{
	as_mallory("CREATE OR REPLACE FUNCTION mallory.message() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN RAISE '%', repeat('x', $length) || repeat('ä', 1000); END \$\$");
	eventually('evil', qq{SELECT last_error LIKE '% on "worst_message": ' || repeat('x', $length) || 'ä%' FROM ($worker) AS w}, 'the last error');
	my ($status, $out) = $node->psql('evil', "SELECT convert_from(convert_to(last_error, 'UTF8'), 'UTF8') = last_error FROM ($worker) AS w");
	is("$status|$out", '0|t', 'it can be read');
}
as_mallory('DROP TABLE mallory.worst_message');

# Nothing to cancel, most of the time
my $pid = sql($node, 'evil', "SELECT pid FROM ($worker) AS w");
is(sql($node, 'evil', "SELECT bool_and(pg_cancel_backend($pid) AND pg_sleep(0.03) IS NOT NULL) FROM generate_series(1, 10)"), 't', 'a worker that sleeps is cancelled');
goes_on('it goes on');
is(sql($node, 'evil', "SELECT pid FROM ($worker) AS w"), $pid, 'it is the same');

# Settings of a database are its owner's; the role that this makes is not the worker's
as_mallory('ALTER DATABASE evil SET role = mallory');
is(sql($node, 'evil', 'SELECT dc_worker_stop(), dc_worker_start()'), 't|t', 'a role set for the database');
goes_on('tables of others are compacted');

## Owners who may not even connect

sql($node, 'evil', q{
	CREATE ROLE nina NOLOGIN CONNECTION LIMIT 0 VALID UNTIL '2000-01-01';
	CREATE SCHEMA nina;
	GRANT USAGE, CREATE ON SCHEMA nina TO nina;
	SELECT dc_create('nina.c', totals => 'compacted');
	ALTER TABLE nina.c OWNER TO nina;
	REVOKE CONNECT, TEMP ON DATABASE evil FROM PUBLIC;
	REVOKE USAGE ON SCHEMA public FROM PUBLIC;
	SELECT dc_incr('nina.c', 'a');});
eventually('evil', q{SELECT (dc_total('nina.c', 'a')).value = 1}, 'an owner without LOGIN, CONNECT, and USAGE of the functions');
# Names are looked up as the owner, too
$offset = -s $node->logfile;
sql($node, 'evil', q{REVOKE USAGE ON SCHEMA nina FROM nina; SELECT dc_incr('nina.c', 'a', 5)});
goes_on('an owner without USAGE of the schema: tables of others are compacted');
$runs = sql($node, 'evil', "SELECT runs FROM ($worker) AS w");
eventually('evil', "SELECT runs >= $runs + 2 FROM ($worker) AS w", 'again and again');
like(slurp_file($node->logfile, $offset), qr/LOG:  dcounter job "compaction" on "c" failed: permission denied for schema nina$/m, 'the log says what is wrong');
is(sql($node, 'evil', q{SELECT dc_get('nina.c', 'a'), (dc_total('nina.c', 'a')).value}), '6|1', 'and the value is exact');
sql($node, 'evil', 'GRANT USAGE ON SCHEMA nina TO nina');
eventually('evil', q{SELECT (dc_total('nina.c', 'a')).value = 6}, 'with it, it is compacted');

## Code that does not end. Meanwhile nobody is compacted; but it can be ended.

# stuck(NAME): tests that the worker runs the owner's code
sub stuck
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return eventually('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE backend_type = 'dcounter worker' AND datname = 'evil' AND wait_event = 'PgSleep'}, $name);
}

as_mallory(q{
	SELECT public.dc_create('mallory.loop', totals => 'compacted');
	CREATE FUNCTION mallory.loop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(100000); RETURN NEW; END $$;
	CREATE TRIGGER t BEFORE INSERT OR UPDATE ON mallory.loop FOR EACH ROW EXECUTE FUNCTION mallory.loop()});
is(sql($node, 'evil', "SELECT dc_incr('mallory.loop', 'a')"), '', 'code that takes long');
stuck('it runs');
$offset = -s $node->logfile;
is(sql($node, 'evil', "SELECT dc_incr('vera.before', 'a'); SELECT dc_get('vera.before', 'a'), dc_get('mallory.loop', 'a')") =~ s/^\n//r, ++$counted{'vera.before'} . '|1', 'values are exact');
$pid = sql($node, 'evil', "SELECT pid FROM ($worker) AS w");
is(sql($node, 'evil', "SELECT pg_cancel_backend($pid)"), 't', 'cancelled');
goes_on('tables of others are compacted');
like(slurp_file($node->logfile, $offset), qr/LOG:  dcounter job "compaction" on "loop" failed: canceling statement due to user request$/m, 'the log says where');
is(sql($node, 'evil', "SELECT pid FROM ($worker) AS w"), $pid, 'the worker survives');

# It does not want to be cancelled, nor found
as_mallory(q{
	CREATE OR REPLACE FUNCTION mallory.loop() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		SET application_name = 'nobody';
		LOOP
			BEGIN
				PERFORM pg_sleep(100000);
			EXCEPTION WHEN query_canceled THEN
				NULL;
			END;
		END LOOP;
	END $$});
sql($node, 'evil', "SELECT pg_cancel_backend(pid) FROM ($worker) AS w");
eventually('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'nobody'}, 'code that catches a cancel');
stuck('it runs');
is(sql($node, 'evil', 'SELECT dc_worker_stop()'), 't', 'the worker can be stopped');
is(sql($node, 'evil', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'evil'}), '0', 'and is');
is(sql($node, 'evil', 'SELECT dc_worker_start()'), 't', 'and started');
stuck('once more');
ok($node->stop('fast', fail_ok => 1), 'the server can be stopped')
  or $node->stop('immediate');
$node->start;
stuck('it starts, and so does the owner');
is(sql($node, 'evil', 'SELECT dc_worker_stop()'), 't', 'the worker is stopped');
as_mallory('DROP TABLE mallory.loop');

## The extension itself: it is in a schema of the owner of the database

as_mallory(q{
	SELECT public.dc_create('mallory.last', totals => 'compacted');
	CREATE FUNCTION mallory.last() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DROP SCHEMA public CASCADE; RETURN NEW; END $$;
	CREATE TRIGGER t BEFORE INSERT ON mallory.last FOR EACH ROW EXECUTE FUNCTION mallory.last()});
sql($node, 'evil', "SELECT dc_incr('mallory.last', 'a'); SELECT dc_worker_start()");
eventually('evil', q{SELECT count(*) = 0 FROM pg_extension WHERE extname = 'dcounter'}, 'it drops the extension in the middle of compaction');
eventually('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'dcounter worker' AND datname = 'evil'}, 'the worker leaves');
is(sql($node, 'evil', 'SELECT sum(inc - dec) FROM (SELECT inc, dec FROM vera.before UNION ALL SELECT inc, dec FROM vera.before_shard) AS u'),
	$counted{'vera.before'}, 'the amounts of others are there');
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC/, 'nothing has crashed');

$node->stop;
done_testing();
