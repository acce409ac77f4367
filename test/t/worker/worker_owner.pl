# Owners who are not to be trusted. The worker is connected as the bootstrap
# superuser, and compacts the tables of everybody; here it is told to do so where their code
# runs, too (dcounter.worker_runs_owner_code). Code that an owner has put on their
# tables runs as that owner and cannot escape, whatever it tries; others' tables
# are compacted as usual. The same holds for dc_maintain() and dc_compact() of a superuser.
# How the worker gets rid of such code is in worker/worker_owner_end.pl.
use strict;
use warnings;

use DcOwner;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = owner_node();

##
## His tables
#
# For each: what is put on it, in his name, and the hooks that compaction must set
# off, to be sure that they were tried. "fails": why the table cannot be compacted.

my @row = map { my $op = $_; map { "$_ ROW $op" } 'BEFORE', 'AFTER' } 'INSERT', 'UPDATE', 'DELETE';
my %tables = (
	triggers => {
		sql => join('', map {
			my $table = $_;

			map { my ($when, $level) = @$_;
				"CREATE TRIGGER \"$when $level\" $when INSERT OR UPDATE OR DELETE ON $table FOR EACH $level EXECUTE FUNCTION mallory.hook();
				ALTER TABLE $table ENABLE ALWAYS TRIGGER \"$when $level\";\n" }
			  ([ 'BEFORE', 'ROW' ], [ 'AFTER', 'ROW' ], [ 'BEFORE', 'STATEMENT' ], [ 'AFTER', 'STATEMENT' ])
		} 'mallory.triggers', 'mallory.triggers_shard'),
		hooks => [ map { my $when = $_; map { ("$when $_ UPDATE totals", "$when $_ DELETE shard") } 'ROW', 'STATEMENT' } 'BEFORE', 'AFTER' ] },
	indexes => {
		sql => q{
			CREATE INDEX ON mallory.indexes ((mallory.value('index on totals ' || inc)));
			CREATE INDEX ON mallory.indexes (key) WHERE mallory.test('predicate on totals ' || inc);
			CREATE INDEX ON mallory.indexes_shard ((mallory.value('index on shards ' || inc)));
			CREATE INDEX ON mallory.indexes_shard (key) WHERE mallory.test('predicate on shards ' || inc);
			CREATE INDEX ON mallory.indexes (key) WHERE mallory.test('constant predicate');
			CREATE INDEX ON mallory.indexes_shard (key) WHERE mallory.test('constant predicate')},
		hooks => [ 'index on totals', 'predicate on totals', 'constant predicate' ] },
	columns => {
		sql => q{
			CREATE DOMAIN mallory.checked AS text CHECK (mallory.test('domain ' || VALUE));
			ALTER TABLE mallory.columns ADD generated text GENERATED ALWAYS AS (mallory.value('generated ' || key || inc)) STORED,
				ADD preset text DEFAULT mallory.value('default'), ADD checked mallory.checked DEFAULT 'x', ADD CHECK (mallory.test('check ' || inc));
			ALTER TABLE mallory.columns_shard ADD preset text DEFAULT mallory.value('default on shards'), ADD CHECK (mallory.test('check on shards ' || inc))},
		hooks => [ 'generated', 'default', 'domain', 'check' ] },
	partitions => {
		create => 'partitions => 2',
		sql => join('', map { my $table = $_; map {
			"CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON mallory.${table}_p$_ FOR EACH ROW EXECUTE FUNCTION mallory.hook();
			CREATE INDEX ON mallory.${table}_p$_ ((mallory.value('index on partitions ' || inc)));\n" } 0, 1 } 'partitions', 'partitions_shard'),
		hooks => [ 'BEFORE ROW UPDATE totals', 'BEFORE ROW DELETE shard', 'index on partitions' ] },
	# with a parent; children are refused (test/sql/shapes.sql)
	child => {
		sql => q{
			CREATE TABLE mallory.parent (key text COLLATE "C" NOT NULL);
			ALTER TABLE mallory.child_shard INHERIT mallory.parent;
			CREATE TRIGGER t BEFORE UPDATE OR DELETE ON mallory.child_shard FOR EACH ROW EXECUTE FUNCTION mallory.hook()},
		unprevented => 1,
		hooks => [ 'BEFORE ROW DELETE shard' ] },
	cascade => {
		sql => q{
			CREATE TABLE mallory.refers (key text COLLATE "C", shard int, FOREIGN KEY (key, shard) REFERENCES mallory.cascade_shard ON DELETE CASCADE);
			CREATE TRIGGER t BEFORE DELETE ON mallory.refers FOR EACH ROW EXECUTE FUNCTION mallory.hook()},
		again => 'INSERT INTO mallory.refers SELECT key, shard FROM mallory.cascade_shard',
		hooks => [ 'BEFORE ROW DELETE totals' ] },
	rules => {
		sql => q{CREATE RULE r AS ON DELETE TO mallory.rules_shard DO ALSO SELECT mallory.attack('rule ' || old.key)},
		hooks => ['rule'] },
	renamed => {
		sql => q{
			ALTER TABLE mallory.renamed RENAME TO hidden;
			CREATE VIEW mallory.renamed AS SELECT key, inc, dec, value, updated_at FROM mallory.hidden WHERE mallory.test('view');
			CREATE VIEW mallory.renamed_shard AS SELECT key, shard, inc, dec, updated_at FROM mallory.hidden_shard WHERE mallory.test('view')},
		name => 'hidden',
	},
	# As the others' search_path, these names would come before the system's
	shadows => {
		sql => q{CREATE TRIGGER t BEFORE UPDATE ON mallory.shadows FOR EACH ROW EXECUTE FUNCTION mallory.hook()},
		hooks => ['BEFORE ROW UPDATE totals'] },

	read_only => {
		sql => q{
			CREATE FUNCTION mallory.read_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN SET transaction_read_only = on; RETURN NEW; END $$;
			CREATE TRIGGER t BEFORE UPDATE ON mallory.read_only FOR EACH ROW EXECUTE FUNCTION mallory.read_only()} },

	deferred => {
		sql => q{CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON mallory.deferred DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION mallory.hook()},
		fails => '"deferred" cannot be written to, as its constraint "t" is deferred' },
	deferred_shard_rows => {
		sql => q{CREATE CONSTRAINT TRIGGER t AFTER DELETE ON mallory.deferred_shard_rows_shard DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION mallory.hook()},
		fails => 'cannot fire deferred trigger within security-restricted operation' },
	set_constraints => {
		sql => q{
			CREATE FUNCTION mallory.defer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN SET CONSTRAINTS ALL DEFERRED; RETURN NEW; END $$;
			CREATE TRIGGER a BEFORE UPDATE ON mallory.set_constraints FOR EACH ROW EXECUTE FUNCTION mallory.defer();
			CREATE CONSTRAINT TRIGGER b AFTER UPDATE ON mallory.set_constraints DEFERRABLE FOR EACH ROW EXECUTE FUNCTION mallory.hook()},
		fails => 'cannot execute SET CONSTRAINTS within security-restricted operation' },
	update_rule => {
		sql => q{CREATE RULE r AS ON UPDATE TO mallory.update_rule DO INSTEAD SELECT mallory.attack('rule')},
		fails => 'could not serialize access due to concurrent update' },
	suppressed => {
		sql => q{
			CREATE FUNCTION mallory.suppress() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM mallory.attack('suppress'); RETURN NULL; END $$;
			CREATE TRIGGER t BEFORE DELETE ON mallory.suppressed_shard FOR EACH ROW EXECUTE FUNCTION mallory.suppress()},
		hooks => ['suppress'],
		fails => 'locked shard rows have changed' },
	drops => {
		sql => q{
			CREATE FUNCTION mallory.drops() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM mallory.attack('drops'); DROP TABLE mallory.drops_shard; RETURN NEW; END $$;
			CREATE TRIGGER t BEFORE UPDATE ON mallory.drops FOR EACH ROW EXECUTE FUNCTION mallory.drops()},
		hooks => ['drops'],
		fails => 'cannot DROP INDEX "drops_shard_pkey" because it is being used by active queries in this session' },
	cancels => {
		sql => q{
			CREATE FUNCTION mallory.cancels() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE query_canceled; END $$;
			CREATE TRIGGER t BEFORE UPDATE ON mallory.cancels FOR EACH ROW EXECUTE FUNCTION mallory.cancels()},
		fails => 'query_canceled' },
	worst_message => {
		sql => worst_message(),
		hooks => ['message'],
		fails => '%s%n' });
my @names = sort keys %tables;
my @good = grep { !$tables{$_}{fails} } @names;
my @bad = grep { $tables{$_}{fails} } @names;

create_others('before');
foreach my $name (@names)
{
	as_mallory("SELECT public.dc_create('mallory.$name', totals => 'compacted'" . ($tables{$name}{create} ? ", $tables{$name}{create}" : '') . ')');
}
sql($node, 'evil', join(';', map { "SELECT dc_incr('mallory.$_', 'a')" } @names));
eventually('evil', 'SELECT ' . join(' + ', map { "(dc_total('mallory.$_', 'a')).value" } @names) . ' = ' . @names, 'tables of his, still as they should be');
sql($node, 'evil', 'SELECT dc_worker_stop()');
as_mallory($tables{$_}{sql}) foreach grep { !$tables{$_}{unprevented} } @names;
# what only event triggers prevent
sql($node, 'evil', "SET session_replication_role = replica; SET ROLE mallory; $tables{$_}{sql}") foreach grep { $tables{$_}{unprevented} } @names;
$tables{$_}{name} //= $_ foreach @names;
create_others('after');
my @others = map { ("vera.$_", "boss.$_") } 'before', 'after';
sql($node, 'evil', join(';', map { "SELECT dc_incr('$_', 'a'); CALL dc_maintain()" } @others));

mislead();
is(sql($node, 'evil', 'SET search_path = shadow, pg_catalog; SELECT 1::pg_catalog.int8 + 1::pg_catalog.int8, current_user = session_user'), '666|t', 'names before those of the system work');

##
## Three ways to compact them

my %counted = map { $_ => 1 } @names, @others;

# count(): adds to all tables, while nobody compacts. Then @again.
sub count
{
	sql($node, 'evil', join(';', (map { "SELECT dc_incr('mallory.$tables{$_}{name}', 'a'), dc_incr('mallory.$tables{$_}{name}', clock_timestamp()::text)" } @names),
		map { "SELECT dc_incr('$_', 'a')" } @others));
	as_mallory($tables{$_}{again}) foreach grep { $tables{$_}{again} } @names;
	$counted{$_}++ foreach @names, @others;
	return;
}

sub values_of
{
	my ($function, @which) = @_;

	return sql($node, 'evil', 'SELECT ' . join(', ', map { sprintf($function, $tables{$_} ? "mallory.$tables{$_}{name}" : $_) . qq{ AS "$_"} } @which));
}

# check(WAY, LOG): what came of it
sub check
{
	my ($way, $log) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @spies = map { [ split /\|/, $_, -1 ] } $log =~ /LOG:  spy\|(.*)\|$/mg;
	my %hooks = map { $_->[0] => 1 } @spies;

	is(join("\n", grep { !/mallory\|mallory/ } map { "$_->[1]|$_->[2]" } @spies), '', "$way: his code runs as himself");
	my %done = map { $_ => 1 } grep { $_ ne '' } map { $_->[3] } @spies;
	is(join("\n", sort keys %done), '', "$way: and can do nothing else");
	foreach my $name (@names)
	{
		my @missing = grep { my $hook = $_; !grep { index($_, $hook) == 0 } keys %hooks } @{ $tables{$name}{hooks} // [] };

		is(join(', ', @missing), '', "$way: $name has tried") if $tables{$name}{hooks} && @{ $tables{$name}{hooks} };
	}
	ok(!$hooks{shadow} && !$hooks{view}, "$way: nobody is misled by names");
	is(values_of("dc_get('%s', 'a')", @names, @others), join('|', map { $counted{$_} } @names, @others), "$way: values are exact");
	is(values_of("(dc_total('%s', 'a')).value", @good, @others), join('|', map { $counted{$_} } @good, @others), "$way: totals");
	is(values_of("(dc_total('%s', 'a')).value", @bad), join('|', map { 1 } @bad), "$way: what fails stays where it is");
	is(sql($node, 'evil', q{
		SELECT rolname FROM pg_roles WHERE rolsuper AND rolname IN ('mallory', 'eve')
		UNION ALL SELECT roleid::regrole::text FROM pg_auth_members WHERE member = 'mallory'::regrole
		UNION ALL SELECT oid::regclass::text FROM pg_class WHERE relname = 'x'
		UNION ALL SELECT who FROM mallory.note WHERE who <> 'mallory'}), '', "$way: he has got nothing");

	return;
}

# witness_ok(WAY, LOG, SETTINGS): how others' code has found the world, all along
sub witness_ok
{
	my ($way, $log, $settings) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my %seen = map { $_ => 1 } $log =~ /LOG:  witness\|(.*)$/mg;
	my %settings = map { (split /\|/)[3] => 1 } keys %seen;

	is(join(' ', sort map { s/\|[^|]*$//r } keys %seen), 'boss|after|boss boss|before|boss vera|after|vera vera|before|vera', "$way: others' code runs as the others");
	is(scalar keys %settings, 1, "$way: nothing that he has set is left") or diag(join("\n", sort keys %settings));
	like((keys %settings)[0], $settings, "$way: settings");
	return;
}

## The worker

count();
my $offset = -s $node->logfile;

is(sql($node, 'evil', 'SELECT dc_worker_start()'), 't', 'worker');
my $pid = sql($node, 'evil', "SELECT pid FROM ($worker) AS w");
eventually('evil', 'SELECT ' . join(' AND ', map { "(dc_total('$_', 'a')).value = 2" } @others), 'worker: tables of others are compacted');
eventually('evil', 'SELECT ' . join(' AND ', map { "(dc_total('mallory.$tables{$_}{name}', 'a')).value = $counted{$_}" } @good), 'worker: and those of his that can be');
my $runs = sql($node, 'evil', "SELECT runs FROM ($worker) AS w");
eventually('evil', "SELECT runs >= $runs + 3 FROM ($worker) AS w", 'worker: again and again');
my $log = slurp_file($node->logfile, $offset);
check('worker', $log);
witness_ok('worker', $log, qr/^pg_catalog, pg_temp off dcounter worker 0 \S+ off read committed read committed off on 4MB ISO, MDY 1 /);
my @errors = errors($log);
foreach my $name (@bad)
{
	ok(scalar(grep { /^LOG:  dcounter job "compaction" on "$name" failed: $tables{$name}{fails}/ } @errors), "worker: the log says what is wrong with $name");
}
my $bad = join('|', @bad);
is(join('', grep { !/^LOG:  dcounter job "compaction" on "($bad)" failed: / } @errors), '', 'worker: and has no other errors');
is(sql($node, 'evil', "SELECT pid FROM ($worker) AS w"), $pid, 'worker: it survives');
eventually('evil', "SELECT count(*) = 1 AND bool_and(objid NOT IN (4711, 4712)) FROM pg_locks WHERE pid = $pid AND locktype = 'advisory'",
	'worker: it keeps its lock, and none of his');

## CALL dc_maintain() and dc_compact() of a superuser

my $session = q{
	SELECT current_user = session_user, current_setting('role'), current_setting('search_path'), current_setting('synchronous_commit'), current_setting('work_mem'),
		current_setting('DateStyle'), current_setting('default_transaction_read_only'), current_setting('transaction_read_only'), current_setting('enable_indexscan'),
		pg_my_temp_schema(), (SELECT count(*) FROM pg_listening_channels()), (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_cursors)};
my $path = 'shadow, pg_catalog, public';
my $usual = "t|none|$path|on|4MB|ISO, MDY|off|off|on|0|0|0|0";
my $settings = qr/^pg_catalog, pg_temp on worker_owner\.pl 0 0 off read committed read committed off on 4MB ISO, MDY 1 none$/;

is(sql($node, 'evil', 'SELECT dc_worker_stop()'), 't', 'the worker is stopped');
count();
$offset = -s $node->logfile;
my ($status, $out, $err) = $node->psql('evil', "SET search_path = $path;\nCALL dc_maintain();\n$session");
is("$status|$out", "0|$usual", 'dc_maintain: the session is as before');
$log = slurp_file($node->logfile, $offset);
check('dc_maintain', $log);
witness_ok('dc_maintain', $log, $settings);
foreach my $name (@bad)
{
	like($err, qr/WARNING:  dcounter job "compaction" on "$name" failed: $tables{$name}{fails}/, "dc_maintain: it says what is wrong with $name");
}
is(scalar(() = $err =~ /WARNING/g), scalar(@bad), 'dc_maintain: and warns of nothing else');

count();
$offset = -s $node->logfile;
foreach my $name ((map { "mallory.$tables{$_}{name}" } @good), @others)
{
	is(sql($node, 'evil', "SET search_path = $path;\nSELECT dc_compact('$name') > 0;\n$session"), "t\n$usual", "dc_compact: $name");
}
foreach my $name (@bad)
{
	($status, $out, $err) = $node->psql('evil', "SET search_path = $path;\nSELECT dc_compact('mallory.$name');\n$session", on_error_stop => 0);
	is($out, $usual, "dc_compact: $name, the session is as before");
	like($err, qr/ERROR:  $tables{$name}{fails}/, "dc_compact: $name cannot be compacted");
}
$log = slurp_file($node->logfile, $offset);
check('dc_compact', $log);
witness_ok('dc_compact', $log, $settings);
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC/, 'nothing has crashed');

$node->stop;
done_testing();
