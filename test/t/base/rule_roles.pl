# Privileges for limits and presences: they are granted for each rule, and apply from the next statement on. A role that
# does its worst has neither the rules nor the memory of others, and runs none of its code as another role. Roles that are
# dropped, and databases that are copied, dropped, and created again.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('main', conf => [ q{shared_preload_libraries = 'dcounter'}, 'dcounter.worker = off', 'fsync = off', q{dcounter.limit_size = '1MB'}, q{dcounter.presence_size = '1MB'}, 'dcounter.throttle_max_keys = 1000' ]);

# as(ROLE, STATEMENTS): as that role
sub as
{
	my ($role, $sql) = @_;

	return sql($node, 'postgres', "SET SESSION AUTHORIZATION $role; $sql");
}

# refused(ROLE, STATEMENT, SQLSTATE): a test
sub refused
{
	my ($role, $sql, $state) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return fails_with($node, 'postgres', "SET SESSION AUTHORIZATION $role;\n$sql", $state, "$role: $sql: $state");
}

sql($node, 'postgres', q{
	CREATE ROLE alice; CREATE ROLE bob; CREATE ROLE mallory; CREATE ROLE carol; CREATE ROLE team; CREATE ROLE watcher IN ROLE pg_monitor; CREATE SCHEMA m AUTHORIZATION mallory;
	GRANT EXECUTE ON FUNCTION dc_limit_create, dc_presence_create TO alice, carol, mallory;
	GRANT EXECUTE ON FUNCTION dc_throttle(text, bigint, bigint, interval, bigint), dc_throttle_reset TO alice, bob, mallory});
as('alice', q{
	SELECT dc_limit_create('api', 'gcra', 10, '100 days'), dc_limit_create('jobs', 'concurrent', 2, '1 day'), dc_presence_create('chat', '7 days', events => '1 us')});
my $lease = as('alice', q{SELECT lease FROM dc_limit('jobs', 'k')});
as('alice', q{SELECT dc_enter('chat', 'lobby', 'ann'), dc_limit('api', 'k')});

##
## Rights for each rule
my @use = (q{SELECT dc_limit('api', 'k')}, q{SELECT dc_limit_peek('api', 'k')}, q{SELECT dc_limit_all('{api}', '{k}')}, qq{SELECT dc_limit_renew('jobs', 'k', $lease)}, q{SELECT dc_enter('chat', 'lobby', 'm')}, q{SELECT dc_beat('chat', 'lobby', 'ann')}, q{SELECT dc_beat_many('chat', '{lobby}', '{ann}')},
	q{SELECT dc_exit('chat', 'lobby', 'm')}, q{SELECT dc_present('chat', 'lobby')}, q{SELECT * FROM dc_presence_list('chat', 'lobby')});
my @refund = (q{SELECT dc_limit_refund('api', 'k')}, q{SELECT dc_limit_reset('api', 'k')});
my @own = (q{SELECT dc_limit_alter('api', 100)}, q{SELECT dc_limit_grant('api', 'mallory')}, q{SELECT dc_limit_revoke('api', 'alice')}, q{SELECT dc_limit_drop('api')}, q{SELECT dc_presence_alter('chat', '1 s')}, q{SELECT dc_presence_grant('chat', 'mallory')}, q{SELECT dc_presence_revoke('chat', 'alice')}, q{SELECT dc_presence_drop('chat')});
my @rows = (q{INSERT INTO dcounter.limit_rule SELECT * FROM dcounter.limit_rule}, q{UPDATE dcounter.limit_rule SET owner = 'mallory'}, q{DELETE FROM dcounter.limit_rule}, q{TRUNCATE dcounter.limit_rule}, q{UPDATE dcounter.presence_rule SET users = '{mallory}'}, q{DELETE FROM dcounter.presence_rule},
	q{SELECT * FROM dcounter.limit_rule FOR UPDATE}, q{BEGIN; LOCK dcounter.presence_rule}, q{SELECT nextval('dcounter.limit_id')}, q{SELECT setval('dcounter.presence_id', 1)}, q{ALTER TABLE dcounter.limit_rule ADD x int}, q{CREATE TRIGGER t BEFORE INSERT ON dcounter.presence_rule FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()});

refused('mallory', $_, '42501') foreach @use, @refund, @own, @rows;
refused('bob', $_, '42501') foreach q{SELECT dc_limit_create('x', 'gcra', 1, '1 s')}, q{SELECT dc_presence_create('x')};
refused('carol', $_, '42501') foreach q{SELECT dc_throttle('k', 1, 1, '1 s')}, q{SELECT dc_throttle_reset()};
refused('bob', $_, '42501') foreach q{SELECT dc_throttle_reset(role => 'mallory')}, q{SELECT dc_throttle_reset('k', 'alice')};
as('alice', q{SELECT dc_limit_grant('api', 'bob'), dc_limit_grant('jobs', 'bob'), dc_presence_grant('chat', 'bob')});
as('bob', $_) foreach @use;
refused('bob', $_, '42501') foreach @refund, @own;
refused('mallory', $_, '42501') foreach @use;
as('alice', q{SELECT dc_limit_grant('api', 'bob', refund => true)});
as('bob', $_) foreach @refund;
as('alice', q{SELECT dc_limit_revoke('api', 'bob'), dc_limit_revoke('jobs', 'bob'), dc_presence_revoke('chat', 'bob')});
refused('bob', $_, '42501') foreach @use, @refund;
# a role's rights are its members'
as('alice', q{SELECT dc_limit_grant('api', 'team'), dc_presence_grant('chat', 'team')});
my $session = dc_session($node, 'postgres');
$session->run('SET SESSION AUTHORIZATION mallory');
my $both = q{SELECT allowed, dc_present('chat', 'lobby') > 0 FROM dc_limit_peek('api', 'k')};
is($session->run($both), 'ERROR 42501', 'a session of one who may not');
sql($node, 'postgres', 'GRANT team TO mallory');
is($session->run($both), 't|t', 'may when it is a member of a role that may');
sql($node, 'postgres', 'REVOKE team FROM mallory');
is($session->run($both), 'ERROR 42501', 'and not when it no longer is');
as('alice', q{SELECT dc_limit_grant('api', '-'), dc_presence_grant('chat', '-')});
is($session->run($both), 't|t', 'everybody may');
as('alice', q{SELECT dc_limit_revoke('api', '-'), dc_presence_revoke('chat', '-')});
is($session->run($both), 'ERROR 42501', 'or not');
$session->quit;
# the rights are those of the calling role, or of the function's owner, if it is SECURITY DEFINER
as('alice', q{SELECT dc_limit_alter('api')});
sql($node, 'postgres', q{
	CREATE FUNCTION asks() RETURNS bigint LANGUAGE sql AS $$ SELECT (dc_limit('api', 'k')).remaining + dc_present('chat', 'lobby') $$;
	CREATE FUNCTION asks_as_alice() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$ SELECT (dc_limit('api', 'k')).remaining + dc_present('chat', 'lobby') $$;
	CREATE FUNCTION throttled(k text) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$ SELECT (dc_throttle(k, 5, 5, '100 days')).remaining $$;
	ALTER FUNCTION asks_as_alice OWNER TO alice; ALTER FUNCTION throttled OWNER TO alice});
refused('mallory', 'SELECT asks()', '42501');
like(as('mallory', 'SELECT asks_as_alice()'), qr/^\d+$/, 'a function of alice asks as her');
refused('mallory', 'SELECT asks_as_alice() + asks()', '42501');
is(as('mallory', q{SELECT throttled('k')}) . as('bob', q{SELECT throttled('k')}) . as('mallory', q{SELECT (dc_throttle('k', 5, 5, '100 days')).remaining}), '434', 'ad hoc limits are those of the role that runs');

##
## Who sees what
my $seen = q{SELECT (SELECT string_agg(coalesce(rule, '(' || owner || ')'), ' ' ORDER BY rule, owner::text) FROM dc_stat_limits) || '/' || coalesce((SELECT string_agg(name, ' ' ORDER BY name) FROM dc_stat_presence), '')};
is(as('alice', $seen), 'api jobs (alice)/chat', 'alice sees hers');
is(as('mallory', $seen), '(mallory)/', 'mallory sees its own');
is(as('watcher', $seen), 'api jobs (alice) (mallory)/chat', 'who may read statistics sees all');
as('alice', q{SELECT dc_presence_grant('chat', 'mallory')});
is(as('mallory', $seen), '(mallory)/chat', 'what it may use, it sees');
as('alice', q{SELECT dc_presence_revoke('chat', 'mallory')});
is(as('mallory', q{SELECT count(*) FROM dcounter.limit_rule, dcounter.presence_rule}), '2', 'rules can be read by all');

##
## Its code does not run as another role, nor use the limits of others
as('mallory', q{
	CREATE TABLE m.fired (who name);
	GRANT INSERT ON m.fired TO PUBLIC; GRANT USAGE ON SCHEMA m TO PUBLIC;
	CREATE FUNCTION m.hit() RETURNS void LANGUAGE sql AS $$ INSERT INTO m.fired VALUES (current_user) $$;
	CREATE FUNCTION m.eq(a text, b text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM m.hit(); RETURN true; END $$;
	CREATE OPERATOR m.= (LEFTARG = text, RIGHTARG = text, FUNCTION = m.eq);
	CREATE FUNCTION m.has_privs(a text, b text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM m.hit(); RETURN true; END $$;
	CREATE FUNCTION m.stat_limits() RETURNS SETOF int LANGUAGE plpgsql AS $$ BEGIN PERFORM m.hit(); RETURN; END $$;
	CREATE FUNCTION m.now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN PERFORM m.hit(); RETURN clock_timestamp(); END $$;
	CREATE TABLE m.limit_rule (LIKE dcounter.limit_rule); CREATE TABLE m.presence_rule (LIKE dcounter.presence_rule);
	CREATE TABLE m.outbox (seq bigint);
	CREATE TYPE m.limit_answer AS (allowed boolean);});
sql($node, 'postgres', q{
	SET search_path = m, public, pg_catalog;
	SELECT dc_limit_create('s', 'log', 5, '1 day'), dc_presence_create('s', '1 day', events => '1 us', notify => 's');
	SELECT dc_limit('s', 'k'), dc_limit_peek('s', 'k'), dc_limit_refund('s', 'k'), dc_limit_all('{s,s}', '{a,b}'), dc_limit_reset('s', 'k'), dc_throttle('k', 1, 1, '1 s');
	SELECT dc_enter('s', 'r', 'm', meta => '{}'), dc_beat('s', 'r', 'm'), dc_beat_many('s', '{r}', '{m}'), dc_present('s', 'r'), dc_presence_list('s', 'r'), dc_exit('s', 'r', 'm');
	CALL dc_maintain();
	SELECT dc_limit_alter('s', 3), dc_presence_alter('s', '2 days'), dc_limit_grant('s', 'bob'), dc_presence_grant('s', 'bob'), dc_limit_revoke('s', 'bob'), dc_presence_revoke('s', 'bob');
	SELECT count(*) FROM dc_stat_limits, dc_stat_presence;
	SELECT dc_limit_drop('s'), dc_presence_drop('s');});
is(sql($node, 'postgres', 'SELECT count(*) FROM m.fired'), '0', 'nothing in a search_path is called');
# An index's expression runs when others write to its table, or maintain it; its own rules do, too
as('mallory', q{
	SELECT dc_limit_create('his', 'fixed', 5, '1 day'), dc_presence_create('hall', '1 day');
	SELECT dc_limit_grant('his', '-'), dc_presence_grant('hall', '-');
	CREATE TABLE m.t (a int); INSERT INTO m.t VALUES (1);
	CREATE FUNCTION m.f(a int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('m.ran', 'yes', false); EXECUTE current_setting('m.what'); RETURN a; END $$;
	SET m.what = 'SELECT 1'; CREATE INDEX ON m.t (m.f(a));});
refused('postgres', "SET m.what = '" . ($_ =~ s/'/''/gr) . "'; REINDEX TABLE m.t", '42501')
  foreach q{SELECT public.dc_limit('api', 'k')}, q{SELECT public.dc_limit('his', 'k')}, q{SELECT public.dc_throttle('k', 1, 1, '1 s')}, q{SELECT public.dc_limit_reset('his', 'k')}, q{SELECT public.dc_enter('chat', 'lobby', 'x')}, q{SELECT public.dc_enter('hall', 'lobby', 'x')}, q{SELECT public.dc_exit('hall', 'lobby', 'x')}, q{SELECT public.dc_beat_many('hall', '{lobby}', '{x}')};
sql($node, 'postgres', q{SET m.what = 'SELECT 1'; REINDEX TABLE m.t});

##
## Memory: a flood by one is not in the way of others
as('alice', q{SELECT dc_limit_alter('api', max_keys => 100)});
as('alice', q{SELECT dc_limit_grant('api', 'mallory'), dc_presence_alter('chat', max_members => 100), dc_presence_grant('chat', 'mallory')});
is(as('mallory', q{SELECT count(*) FILTER (WHERE (l).allowed) FROM (SELECT dc_limit('api', i::text) AS l FROM generate_series(1, 20000) AS i) AS s}), '99', 'a user of a rule has as many keys as the rule may');
refused('mallory', q{SELECT dc_enter('chat', 'room ' || i, 'x') FROM generate_series(1, 1000) AS i}, '53200');
refused('mallory', q{SELECT dc_enter('hall', 'room ' || i, 'x') FROM generate_series(1, 20000) AS i}, '53200');
refused('mallory', q{SELECT dc_enter('hall', 'room', 'x' || i, 'c') FROM generate_series(1, 20000) AS i}, '53200');
as('mallory', q{SELECT count(dc_limit('his', i::text)) FROM generate_series(1, 20000) AS i; SELECT count(dc_throttle(i::text, 5, 5, '100 days')) FROM generate_series(1, 5000) AS i});
is(as('mallory', q{SELECT keys FROM dc_stat_limits WHERE rule IS NULL}), '1000', 'and as many ad hoc limits as a role may have');
is(as('alice', q{SELECT allowed FROM dc_limit('jobs', 'new')}), 't', 'others have room for theirs');
is(as('bob', q{SELECT allowed FROM dc_throttle('bob', 1, 1, '1 day')}), 't', 'so for ad hoc limits');
is(as('carol', q{SELECT dc_presence_create('quiet', '1 day'); SELECT dc_enter('quiet', 'room', 'x')}), "\n1", 'and for members');
# as many ad hoc limits as there may be, of roles together; those of a second are idle by then, or one of them would make room later
sql($node, 'postgres', 'SELECT pg_sleep(1.1)');
my $flood = q{SELECT count(*) FILTER (WHERE (dc_throttle(current_user || i, 5, 5, '3000 days')).allowed) FROM generate_series(1, 20000) AS i};
foreach my $role ('mallory', 'bob')
{
	sql($node, 'postgres', "SET dcounter.throttle_max_keys = 1000000; SET SESSION AUTHORIZATION $role; $flood");
}
is(as('alice', q{SELECT allowed FROM dc_throttle('new', 1, 1, '1 day')}), 'f', 'two roles can use up the memory of ad hoc limits');
cmp_ok(as('watcher', q{SELECT sum(memory) FROM dc_stat_limits WHERE rule IS NULL}), '<', 300000, 'which is a quarter of all');
is(as('carol', q{SELECT dc_limit_create('late', 'fixed', 1, '1 day', max_keys => 4000); SELECT count(*) FILTER (WHERE (dc_limit('late', i::text)).allowed) FROM generate_series(1, 1000) AS i; SELECT dc_limit_drop('late')}), "\n1000\n", 'rules have theirs');
as('bob', q{SELECT dc_throttle_reset()});
is(as('alice', q{SELECT allowed FROM dc_throttle('new', 1, 1, '1 day')}), 't', 'a role gives its own back');
as('mallory', q{SELECT dc_limit_drop('his'), dc_presence_drop('hall')});
is(as('alice', q{SELECT dc_limit_drop('api'), dc_presence_alter('chat', max_members => 1000)}), '|', 'what mallory has filled is free for alice');
foreach my $round (1 .. 4)
{
	is(as('mallory', q{SELECT dc_presence_create('hall', '1 day', max_members => 2000), dc_limit_create('his', 'fixed', 5, '1 day', max_keys => 2000);
		SELECT count(dc_enter('hall', 'room', 'x' || i)), count(*) FILTER (WHERE (dc_limit('his', i::text)).allowed) FROM generate_series(1, 2000) AS i;
		SELECT dc_presence_drop('hall'), dc_limit_drop('his')}), "|\n2000|2000\n|", "$round: what is dropped gives back its memory");
}
# its transaction holds up nobody's events but its own
as('mallory', q{SELECT dc_presence_create('hall', '1 day', events => '1 us'); SELECT dc_enter('hall', 'r', 'x')});
as('alice', q{SELECT dc_enter('chat', 'events', 'ann')});
$session = dc_session($node, 'postgres');
$session->run('SET SESSION AUTHORIZATION mallory');
$session->run('BEGIN');
$session->run('CALL dc_maintain()');
my $told = q{SELECT string_agg(aggregatetype || ' ' || aggregateid || ' ' || (payload ->> 'count'), ', ' ORDER BY seq) FROM dcounter.outbox WHERE aggregatetype IN ('chat', 'hall') AND aggregateid IN ('events', 'r')};
sql($node, 'postgres', 'CALL dc_maintain()');
is(sql($node, 'postgres', $told), 'chat events 1', 'the events of others are made while it holds its own');
$session->run('ROLLBACK');
is(sql($node, 'postgres', "CALL dc_maintain(); $told"), 'chat events 1, hall r 1', 'and its own when it has rolled back');
as('mallory', q{SELECT dc_enter('hall', 'r', 'y')});
$session->run('BEGIN');
$session->run('SAVEPOINT s');
$session->run('CALL dc_maintain()');
$session->run('ROLLBACK TO s');
$session->run('COMMIT');
is(sql($node, 'postgres', "CALL dc_maintain(); $told"), 'chat events 1, hall r 1, hall r 2', 'also to a savepoint');
as('mallory', q{SELECT dc_enter('hall', 'r', 'z')});
$session->run('BEGIN');
$session->run('SAVEPOINT s');
$session->run('CALL dc_maintain()');
$session->run('RELEASE s');
$session->run('CALL dc_maintain()');
is($session->run(q{PREPARE TRANSACTION 'events'}), 'ERROR 0A000', 'such a transaction cannot be prepared');
$session->run('BEGIN');
$session->run('SAVEPOINT s');
$session->run('CALL dc_maintain()');
$session->run('RELEASE s');
$session->run('CALL dc_maintain()');
$session->run('COMMIT');
is(sql($node, 'postgres', "CALL dc_maintain(); $told"), 'chat events 1, hall r 1, hall r 2, hall r 3', 'what has committed is told once');
$session->quit;
as('mallory', q{SELECT dc_presence_drop('hall')});

##
## Roles that go
as('carol', q{SELECT dc_limit_create('hers', 'gcra', 5, '100 days'); SELECT dc_limit('hers', 'k'); SELECT dc_limit_grant('hers', 'bob', refund => true), dc_presence_grant('quiet', 'bob')});
as('alice', q{SELECT dc_limit_grant('jobs', 'carol'), dc_presence_grant('chat', 'carol')});
my $owners = q{SELECT string_agg(name || ' ' || coalesce((SELECT rolname FROM pg_roles WHERE oid = owner), 'nobody') || ' ' || (users @> ARRAY[} . sql($node, 'postgres', q{SELECT 'carol'::regrole::oid}) . q{::oid::regrole])::text, ', ' ORDER BY name) FROM (SELECT name, owner, users FROM dcounter.limit_rule UNION ALL SELECT name, owner, users FROM dcounter.presence_rule) AS r};
sql($node, 'postgres', q{REASSIGN OWNED BY carol TO alice; DROP OWNED BY carol});
is(sql($node, 'postgres', $owners), 'chat alice true, hers carol false, jobs alice true, quiet carol false', 'rules are not objects of the server: REASSIGN OWNED and DROP OWNED leave them');
sql($node, 'postgres', 'DROP ROLE carol');
is(sql($node, 'postgres', $owners), 'chat alice true, hers nobody false, jobs alice true, quiet nobody false', 'nor do they keep a role from being dropped');
is(as('bob', q{SELECT remaining, dc_present('quiet', 'room') FROM dc_limit('hers', 'k')}), '3|1', 'users go on');
refused('bob', $_, '42501') foreach q{SELECT dc_limit_alter('hers', 1)}, q{SELECT dc_presence_drop('quiet')};
is(sql($node, 'postgres', q{SELECT owner::text ~ '^\d+$' FROM dc_stat_limits WHERE rule = 'hers'}), 't', 'the view shows the number of the owner who was');
sql($node, 'postgres', q{SELECT dc_limit_alter('hers', 6), dc_presence_alter('quiet', '2 days')});
as('alice', q{SELECT dc_limit_alter('jobs', 3), dc_presence_alter('chat', '6 days')});
is(sql($node, 'postgres', $owners), 'chat alice false, hers postgres false, jobs alice false, quiet postgres false', 'with the next change such roles are forgotten, and a rule without an owner is the superuser\'s');
sql($node, 'postgres', 'DROP OWNED BY bob; DROP ROLE bob');
is(sql($node, 'postgres', q{SELECT dc_limit_revoke('hers', users[1]) FROM dcounter.limit_rule WHERE name = 'hers'; SELECT users FROM dcounter.limit_rule WHERE name = 'hers'}), "\n{}", 'a right of a dropped role can be taken back');
$node->stop;
done_testing();
