# Subscriptions of roles that are not superusers, which PostgreSQL 16 has. Such a role may list any table in a
# subscription without a right to it; what it cannot write to is not fed. And what an owner's code publishes in the
# worker of a superuser's subscription has the limit of events that it has elsewhere, but what the worker itself
# applies has none.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('strangers', init => { allows_streaming => 'logical' }, conf => [
		"shared_preload_libraries = 'dcounter'", 'fsync = off', 'autovacuum = off', 'dcounter.worker = off', "wal_retrieve_retry_interval = '200ms'",
		'dcounter.max_events_per_transaction = 5' ]);

if (sql($node, 'postgres', 'SHOW server_version_num') < 160000)
{
	$node->stop;
	plan skip_all => 'before PostgreSQL 16 all subscriptions are of superusers';
}

my $connection = $node->connstr('postgres') =~ s/dbname=\S+//r . ' dbname=theirs password=any';

sql($node, 'postgres', q{
	CREATE ROLE alice LOGIN;
	CREATE ROLE mallory LOGIN;
	GRANT pg_create_subscription TO mallory;
	GRANT CREATE ON DATABASE postgres TO alice, mallory;
	GRANT CREATE ON SCHEMA public TO alice;
	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO alice});
sql($node, 'postgres', 'CREATE DATABASE theirs');
sql($node, 'theirs', q{
	CREATE SCHEMA dcounter;
	CREATE TABLE likes (key text PRIMARY KEY);
	CREATE TABLE dcounter.outbox_0 (seq bigint);
	CREATE TABLE t (id int PRIMARY KEY);
	INSERT INTO t SELECT generate_series(1, 20);
	CREATE PUBLICATION listed FOR TABLE likes, dcounter.outbox_0;
	CREATE PUBLICATION p FOR TABLE t;
	SELECT pg_create_logical_replication_slot('s', 'pgoutput')});

# Tables that a stranger has listed
my $session = dc_session($node, 'postgres');

sql($node, 'postgres', q{SET SESSION AUTHORIZATION alice; SELECT dc_create('likes'); SELECT dc_alter('likes', events => '1 ms')});
is($session->run('SET SESSION AUTHORIZATION alice'), '', 'alice');
sql($node, 'postgres', qq{CREATE SUBSCRIPTION listed CONNECTION '$connection' PUBLICATION listed WITH (create_slot = false, slot_name = NONE, enabled = false)});

# fed(NAME, EXPECTED): whether alice may count, and whether events of changed keys are written
sub fed
{
	my ($name, $fed) = @_;
	my $events = 'SELECT count(*) FROM dcounter.outbox';
	my $before = sql($node, 'postgres', $events);

	is($session->run(q{SELECT dc_incr('likes', 'k')}), $fed ? 'ERROR 55000' : '', "$name: " . ($fed ? 'fed' : 'not fed'));
	is(sql($node, 'postgres', q{SELECT coalesce(fed_by, '') FROM dc_stat_counters}), $fed ? 'listed' : '', "$name: the statistics say so");
	sql($node, 'postgres', q{SELECT pg_sleep(0.01); CALL dc_maintain()});
	is(sql($node, 'postgres', "SELECT (count(*) > $before)::int FROM dcounter.outbox"), $fed ? '0' : '1', "$name: events of what was counted");
	return;
}

fed('a superuser', 1);
sql($node, 'postgres', 'ALTER SUBSCRIPTION listed OWNER TO mallory');
fed('a stranger', 0);
sql($node, 'postgres', 'GRANT alice TO mallory');
is($session->run(q{SELECT dc_incr('likes', 'k')}), 'ERROR 55000', 'one who may become the owner feeds the table');
sql($node, 'postgres', 'REVOKE alice FROM mallory; GRANT INSERT ON likes TO mallory');
fed('one who may insert', 0);
sql($node, 'postgres', 'ALTER SUBSCRIPTION listed SET (run_as_owner = true)');
is($session->run(q{SELECT dc_incr('likes', 'k')}), 'ERROR 55000', 'whose rows are applied with its own rights');
sql($node, 'postgres', 'REVOKE INSERT ON likes FROM mallory');
fed('a right that was revoked', 0);
sql($node, 'postgres', 'ALTER ROLE mallory SUPERUSER');
fed('a role that becomes a superuser', 1);
sql($node, 'postgres', 'DROP SUBSCRIPTION listed; ALTER ROLE mallory NOSUPERUSER');
fed('dropped', 0);

# More events than a transaction may have
sql($node, 'postgres', q{
	SET SESSION AUTHORIZATION alice;
	CREATE TABLE t (id int PRIMARY KEY);
	CREATE TABLE u (n serial PRIMARY KEY, id int);
	SELECT dc_outbox_attach('t'), dc_outbox_attach('u');
	ALTER TABLE t ENABLE ALWAYS TRIGGER dcounter_outbox_insert;
	ALTER TABLE u ENABLE ALWAYS TRIGGER dcounter_outbox_insert;
	CREATE FUNCTION publish() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM public.dc_publish('own', 'k', 'x', '1') FROM generate_series(1, 6); RETURN NULL; END$$;
	CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.u (id) SELECT generate_series(1, 6); RETURN NULL; END$$;
	CREATE FUNCTION fill_by_default() RETURNS int LANGUAGE sql AS 'INSERT INTO public.u (id) SELECT generate_series(1, 6); SELECT 1'});
sql($node, 'postgres', qq{CREATE SUBSCRIPTION s CONNECTION '$connection' PUBLICATION p WITH (create_slot = false, slot_name = s)});

my $captured = q{SELECT count(*) FROM dcounter.outbox WHERE aggregatetype = 't'};
my $next = 21;

# more(): a transaction of 20 rows
sub more
{
	sql($node, 'theirs', "INSERT INTO t SELECT generate_series($next, $next + 19)");
	$next += 20;
	return;
}

# refused(NAME): the limit is in the log. Then it is as before, and what has come is applied
sub refused
{
	my ($name, $remove) = @_;
	my $from = -s $node->logfile;

	more();
	foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		last if slurp_file($node->logfile, $from) =~ /a transaction cannot have more than 5 events/;
		select(undef, undef, undef, 0.1);
	}
	like(slurp_file($node->logfile, $from), qr/ERROR:  a transaction cannot have more than 5 events/, "$name: refused");
	sql($node, 'postgres', $remove);
	is(wait_for($node, 'postgres', $captured, $next - 1), $next - 1, "$name: then all is captured");
	return;
}

is(wait_for($node, 'postgres', $captured, '20'), '20', 'rows that are copied have no limit');
more();
is(wait_for($node, 'postgres', $captured, '40'), '40', 'nor have those of a transaction');
sql($node, 'postgres', 'CREATE TRIGGER own AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION publish(); ALTER TABLE t ENABLE ALWAYS TRIGGER own');
refused('a trigger that publishes', 'DROP TRIGGER own ON t');
sql($node, 'postgres', 'CREATE TRIGGER own AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION fill(); ALTER TABLE t ENABLE ALWAYS TRIGGER own');
refused('a trigger that writes captured rows', 'DROP TRIGGER own ON t');
sql($node, 'postgres', 'ALTER TABLE t ADD more int; ALTER TABLE t ALTER more SET DEFAULT fill_by_default()');
refused('a default that writes captured rows', 'ALTER TABLE t DROP more');
sql($node, 'postgres', 'GRANT alice TO mallory; ALTER SUBSCRIPTION s SET (password_required = false); ALTER SUBSCRIPTION s OWNER TO mallory');
refused('a subscription that is not of a superuser', 'ALTER SUBSCRIPTION s OWNER TO ' . sql($node, 'postgres', 'SELECT current_user'));

sql($node, 'postgres', 'DROP SUBSCRIPTION s');
$session->quit;
$node->stop;
done_testing();
