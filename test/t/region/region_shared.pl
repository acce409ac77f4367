# One link brings the rows of all counters, including those of hostile owners. What one of them writes by hand
# into their tables in one region, or does to them in the other, stops nothing: their rows are passed over, and counted,
# and their DDL is refused. Roles that may not replicate anything cannot stop anything either.
use strict;
use warnings;

use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @nodes = map { region_node($_) } 'eu', 'us';
my ($eu, $us) = @nodes;
my $n = 0;
my $errors = 0;    # of links that are made: two first copies may deadlock, and be done again

# mallory(NODE, STATEMENTS): as mallory
sub mallory
{
	my ($node, $sql) = @_;

	return sql($node, 'postgres', "SET SESSION AUTHORIZATION mallory; SET search_path = m, public; $sql");
}

# still(NAME): what others count in us is in eu, and the link has had no error
sub still
{
	my ($name) = @_;

	sql($us, 'postgres', q{SELECT dc_incr('likes', 'a')});
	$n++;
	is(wait_for($eu, 'postgres', q{SELECT dc_get('likes', 'a')}, $n), $n, "$name: the link goes on");
	is(sql($eu, 'postgres', q{SELECT sum(apply_errors) FROM dc_regions()}), $errors, "$name: without errors");
	return;
}

# passed(NAME, STATEMENT, HOW MANY): mallory writes by hand in us, and so many rows are passed over in eu
my $passed = 0;

sub passed
{
	my ($name, $sql, $rows) = @_;

	mallory($us, $sql);
	$passed += $rows;
	is(wait_for($eu, 'postgres', q{SELECT sum(rows_passed_over) FROM dc_stat_counters WHERE counter::text LIKE 'm.%'}, $passed), $passed, "$name: passed over, and counted");
	still($name);
	return;
}

# refused(STATEMENT): mallory may not do it in eu, nor in us
sub refused
{
	my ($sql) = @_;

	foreach my $node (@nodes)
	{
		fails_with($node, 'postgres', "SET SESSION AUTHORIZATION mallory; SET search_path = m, public; $sql", qr/42809|55000|0A000|2BP01/, "$sql: refused in " . $node->name);
	}
	return;
}

foreach my $node (@nodes)
{
	sql($node, 'postgres', q{CREATE ROLE team; CREATE ROLE mallory IN ROLE team; CREATE SCHEMA m AUTHORIZATION mallory; CREATE SCHEMA n AUTHORIZATION mallory; GRANT CREATE ON DATABASE postgres TO mallory});
	mallory($node, q{SELECT dc_create('r'), dc_stock_create('s')});
}
fails_with($us, 'postgres', q{SET SESSION AUTHORIZATION mallory; SELECT dc_replicate('m.r')}, '42501', 'to replicate takes a grant');
foreach my $node (@nodes)
{
	sql($node, 'postgres', 'GRANT EXECUTE ON FUNCTION dc_replicate(regclass, boolean) TO mallory');
	mallory($node, q{SELECT dc_replicate('r'), dc_replicate('s')});
}
sql($eu, 'postgres', "SELECT dc_region_join('us', '" . ($us->connstr('postgres') =~ s/'/''/gr) . "', trust_owners => true) \\gexec");
sql($us, 'postgres', "SELECT dc_region_join('eu', '" . ($eu->connstr('postgres') =~ s/'/''/gr) . "', trust_owners => true) \\gexec");
region_copied(@nodes);
$errors = sql($eu, 'postgres', q{SELECT sum(apply_errors) FROM dc_regions()});
still('a link');

# Rows by hand
passed('negative amounts', q{INSERT INTO r_region VALUES ('k', 'us', 5, -1, 2, now())}, 1);
passed('a time', q{INSERT INTO r_region VALUES ('k', 'us', 6, 1, 2, '-infinity')}, 1);
passed('another key', q{INSERT INTO r_region VALUES ('x', 'us', 5, 1, 0, now()); UPDATE r_region SET key = 'y' WHERE key = 'x'}, 1);
passed('a long key', q{INSERT INTO r_region VALUES (repeat('k', 1100), 'us', 5, 1, 2, now())}, 1);
passed('a stamp', q{INSERT INTO r_set VALUES ('k', 'us', -1, 1, false, dc_pncounter())}, 1);
passed('a late stamp', q{INSERT INTO r_set VALUES ('late', 'us', 9223372036854775807, 1, false, dc_pncounter())}, 1);
passed('a value', q{INSERT INTO r_set VALUES ('l', 'us', 5, -9223372036854775807 - 1, false, dc_pncounter())}, 1);
passed('a deleted key', q{INSERT INTO r_set VALUES ('m', 'us', 5, 1, true, dc_pncounter())}, 1);
# what a row has observed, and what all of a key have: those of eu are not sent, as nobody has written them by a function
my $state = q{(SELECT ('{' || string_agg(format('"%s%s:1": {"inc": 1}', $1, lpad(i::text, 36, '0')), ', ') || '}')::dc_pncounter FROM generate_series(1, $2) AS i)};
my $observed = sub { my ($name, $count) = @_; return $state =~ s/\$1/'$name'/r =~ s/\$2/$count/r };
passed('a row that has observed too much', "INSERT INTO r_set VALUES ('o', 'us', 5, 1, false, " . $observed->('a', 20000) . ')', 1);
mallory($eu, "INSERT INTO r_set SELECT 'p', 'r' || i, 5, 1, false, " . $observed->('a', 180000) . ' FROM generate_series(1, 2) AS i');
passed('more than a state can be', "INSERT INTO r_set VALUES ('p', 'us', 5, 1, false, " . $observed->('b', 2000) . ')', 1);
mallory($eu, "INSERT INTO r_set VALUES ('longer', repeat('a', 2000), 1, 0, false, '{}')"); # of a region whose name is longer than any key
mallory($us, "SELECT dc_set('r', 'longer', 7)");
is(wait_for($eu, 'postgres', q{SELECT dc_get('m.r', 'longer')}, '7'), '7', 'a set comes beside a row by hand');
still('a row of no region');
passed('a grant', q{INSERT INTO s_grant VALUES ('k', 'us', 5, 'eu', 5, -7)}, 1);
passed('a grant of no region', q{INSERT INTO s_grant VALUES ('k', 'us', 5, 'E U', 5, 7)}, 1);
passed('a want', q{INSERT INTO s_want VALUES ('k', 'us', 5, 5, -5, 2, 0, 0, 2, 50, 0, 0, 'infinity', 0, 0)}, 1);
my $epoch = sql($eu, 'postgres', q{SELECT rights_epoch FROM dcounter.counter WHERE counter = 'm.s'::regclass});
mallory($us, "INSERT INTO s_grant VALUES ('q', 'us', 5, 'eu', $epoch, 9000000000000000000)");
passed('more units than there can be', "INSERT INTO s_grant VALUES ('q', 'us', 6, 'eu', $epoch, 9000000000000000000)", 1);
# what was written by hand here leaves no room for more
mallory($eu, q{INSERT INTO s_shard VALUES ('neg', 5, -9000000000000000000, 0, -9000000000000000000, now())});
passed('more units than there can be, but for a negative row', "INSERT INTO s_grant SELECT 'neg', 'us', e, 'eu', $epoch, 9000000000000000000 FROM generate_series(7, 8) AS e", 1);
# Sums out of range for bigint are an error for their readers
mallory($us, q{INSERT INTO r_region SELECT 'big', 'us', e, 9000000000000000000, 0, now() FROM generate_series(1, 5) AS e});
still('sums that leave bigint');
is(wait_for($eu, 'postgres', q{SELECT count(*) FROM m.r_region WHERE key = 'big'}, '5'), '5', 'they are there');
fails_with($eu, 'postgres', q{SELECT dc_get('m.r', 'big')}, '22003', 'reading them is an error');
# more keys in one transaction than the lock table has room for, and one key very often
mallory($us, q{INSERT INTO r_set SELECT 'set' || i, 'us', 5, i, false, dc_pncounter() FROM generate_series(1, 5000) AS i;
	INSERT INTO r_region SELECT 'often', 'us', e, 1, 0, now() FROM generate_series(1, 20000) AS e});
is(wait_for($eu, 'postgres', q{SELECT dc_get('m.r', 'set5000') + dc_get('m.r', 'often')}, '25000'), '25000', 'very many keys and rows come');
still('very many keys');
mallory($us, q{UPDATE r_region SET inc = inc + 1 WHERE key = 'big'});
mallory($eu, q{SELECT dc_reset('r', 'big')});
is(wait_for($us, 'postgres', q{SELECT value FROM m.r_set WHERE key = 'big' AND region = 'eu'}, '0'), '0', 'a set of such a key arrives');
still('a set of such a key');

# DDL
mallory($_, q{CREATE FUNCTION one(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'}) foreach @nodes;
refused($_) foreach (
	'ALTER TABLE r_region ADD CHECK (inc < 1) NOT VALID', 'ALTER TABLE r_region ENABLE ROW LEVEL SECURITY', 'ALTER TABLE r_region ADD note text NOT NULL DEFAULT 1',
	'ALTER TABLE r_region RENAME TO other', 'ALTER TABLE r RENAME TO other', 'ALTER INDEX r_region RENAME TO other', 'ALTER INDEX r RENAME TO other', 'ALTER TABLE r_region RENAME inc TO other', 'ALTER SCHEMA m RENAME TO other', 'ALTER TABLE r_set SET SCHEMA n', 'ALTER TABLE r SET SCHEMA n',
	'ALTER TABLE r_region REPLICA IDENTITY FULL', 'ALTER TABLE r_region ALTER inc DROP NOT NULL', 'ALTER TABLE r_region ALTER inc TYPE numeric', 'ALTER TABLE r_region DISABLE TRIGGER ALL', 'DROP TRIGGER dcounter_merge ON r_set',
	'CREATE UNIQUE INDEX ON r_region (region)', 'CREATE INDEX CONCURRENTLY i ON r_set (hlc)', 'REVOKE INSERT ON s_grant FROM mallory', 'REVOKE DELETE ON r_region FROM mallory', 'CREATE PUBLICATION deletions FOR TABLE r_region WHERE (inc > 0) WITH (publish = $$delete$$)', 'REVOKE SELECT ON s_shard FROM mallory', 'REVOKE USAGE ON SCHEMA m FROM mallory', 'REVOKE ALL ON ALL TABLES IN SCHEMA m FROM mallory', 'CREATE TABLE child () INHERITS (s_want)',
	'ALTER TABLE r_shard ADD CHECK (inc < 1) NOT VALID', 'ALTER TABLE r_shard RENAME inc TO other', 'CREATE RULE r AS ON INSERT TO s_want DO NOTHING', 'DROP TABLE r', 'DROP TABLE r_region', 'DROP TABLE r_shard', 'DROP TABLE s_hold', 'DROP OWNED BY mallory', q{SELECT dc_drop('r')},
	'ALTER TABLE r_set ADD UNIQUE (key, region)', 'ALTER TABLE r_set ALTER upto SET STORAGE PLAIN',
	'CREATE PUBLICATION filter FOR TABLE r_shard WHERE (inc > 3)', 'ALTER TABLE s_shard REPLICA IDENTITY NOTHING', 'ALTER TABLE s DROP CONSTRAINT s_pkey, ADD PRIMARY KEY (key) INCLUDE (updated_at)',
	'BEGIN; CREATE UNIQUE INDEX d ON s (key DESC); ALTER TABLE s DROP CONSTRAINT s_pkey',
	'BEGIN; GRANT USAGE ON SCHEMA m TO team; GRANT INSERT ON r_region TO team WITH GRANT OPTION; SET ROLE team; GRANT INSERT ON m.r_region TO mallory; RESET ROLE; REVOKE INSERT ON r_region FROM mallory', 'ALTER TABLE s_want SET (user_catalog_table)', 'ALTER TABLE r_region ALTER inc SET DEFAULT m.one(1)', 'CREATE STATISTICS st ON (m.one(1) + hlc), key FROM s_want',
	'CREATE PUBLICATION filter FOR TABLE r_region WHERE (inc > 0)', 'CREATE PUBLICATION columns FOR TABLE r_set (key)',
	q{CREATE PUBLICATION later FOR TABLE s_want WHERE (hlc > 0) WITH (publish = 'insert'); ALTER PUBLICATION later SET (publish = 'update')},
	'GRANT ALL ON s_want TO team; REVOKE ALL ON s_want FROM mallory', 'DROP SCHEMA m CASCADE',
	'CREATE OR REPLACE TRIGGER dcounter_merge AFTER TRUNCATE ON r_region FOR EACH STATEMENT EXECUTE FUNCTION dcounter.on_counter_truncate()');
# another key may take the place of the first one, and then is one that is needed
mallory($_, 'CREATE UNIQUE INDEX a ON r (key); ALTER TABLE r DROP CONSTRAINT r_pkey') foreach @nodes;
refused('DROP INDEX CONCURRENTLY a');
refused('DROP INDEX a');
mallory($_, 'ALTER TABLE r ADD PRIMARY KEY (key); DROP INDEX a') foreach @nodes;
# even if the trigger or the index is dropped together with another object
foreach my $of ('TRIGGER dcounter_merge ON r_set', 'INDEX r_region_pkey')
{
	mallory($_, "CREATE EXTENSION hstore SCHEMA n; ALTER $of DEPENDS ON EXTENSION hstore") foreach @nodes;
	refused('DROP EXTENSION hstore');
	mallory($_, "ALTER $of NO DEPENDS ON EXTENSION hstore; DROP EXTENSION hstore") foreach @nodes;
}
# a name may mean another table when a command has waited
foreach my $race (
	[ 'CREATE TABLE n.r_region (hlc int)', 'DROP TABLE n.r_region', 'CREATE UNIQUE INDEX CONCURRENTLY raced ON r_region (region)' ],
	[ 'CREATE TABLE n.d (key text); CREATE UNIQUE INDEX a ON n.d (key)', 'DROP TABLE n.d', 'DROP INDEX CONCURRENTLY a' ])
{
	my ($decoy, $drop, $command) = @$race;

	mallory($eu, 'CREATE UNIQUE INDEX a ON r (key); ALTER TABLE r DROP CONSTRAINT r_pkey');
	mallory($eu, $decoy);
	my ($dropping, $session) = map { dc_session($eu, 'postgres') } 1 .. 2;
	$_->run('SET SESSION AUTHORIZATION mallory; SET search_path = n, m, public') foreach $dropping, $session;
	$dropping->run("BEGIN; $drop");
	$session->send($command);
	is(wait_for($eu, 'postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation IN (SELECT oid FROM pg_class WHERE relnamespace = 'n'::regnamespace)}, 't'), 't', "$command: waits for another table");
	$dropping->run('COMMIT');
	is($session->wait, 'ERROR 55000', "$command: refused when that has gone");
	$_->quit foreach $dropping, $session;
	mallory($eu, 'ALTER TABLE r ADD PRIMARY KEY (key); DROP INDEX a');
}
is(sql($eu, 'postgres', q{SELECT count(*) FROM pg_class WHERE relname = 'raced'}), '0', 'nothing is left of an index');
{
	my ($granting, $session) = map { dc_session($eu, 'postgres') } 1 .. 2;

	$_->run('SET SESSION AUTHORIZATION mallory; SET search_path = n, m, public') foreach $granting, $session;
	$granting->run('BEGIN; GRANT SELECT ON r_region TO team');
	$session->send('REVOKE INSERT ON r_region FROM mallory');
	is(wait_for($eu, 'postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'}, 't'), 't', 'REVOKE waits for another GRANT');
	mallory($eu, 'CREATE TABLE n.r_region (hlc int)');
	$granting->run('ROLLBACK');
	is($session->wait, 'ERROR 55000', 'and is refused, though the name means another table by now');
	mallory($eu, 'DROP TABLE n.r_region');
	$_->quit foreach $granting, $session;
}
# an index that refuses the same rows as another one: one REINDEX may have left one, but each write locks all of them
mallory($eu, "CREATE UNIQUE INDEX CONCURRENTLY equal_$_ ON r_shard (key, shard)") foreach 1, 2;
fails_with($eu, 'postgres', 'SET SESSION AUTHORIZATION mallory; CREATE UNIQUE INDEX CONCURRENTLY equal_3 ON m.r_shard (key, shard)', '55000', 'not any number of equal indexes');
mallory($eu, 'DROP INDEX equal_1, equal_2');
mallory($eu, "REINDEX TABLE CONCURRENTLY $_") foreach 'r_region', 'r_set', 'r_shard', 's_grant', 's_want', 'r';
sql($eu, 'postgres', $_) foreach 'CREATE INDEX CONCURRENTLY su ON m.r_set (hlc)', 'DROP INDEX CONCURRENTLY m.su'; # a superuser may
# tables can be moved with an extension
SKIP:
{
	skip 'pgTAP is not installed', 2 if sql($eu, 'postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pgtap'}) eq '0';
	mallory($_, 'CREATE EXTENSION pgtap SCHEMA m; ALTER EXTENSION pgtap ADD TABLE r_region') foreach @nodes;
	refused('ALTER EXTENSION pgtap SET SCHEMA n');
	mallory($_, 'ALTER EXTENSION pgtap DROP TABLE r_region; ALTER EXTENSION pgtap SET SCHEMA n; DROP EXTENSION pgtap') foreach @nodes;
}
mallory($eu, q{ALTER TABLE r_region SET (fillfactor = 60); GRANT SELECT ON r_region TO PUBLIC; ANALYZE r_region; ALTER TABLE r OWNER TO mallory; COMMENT ON TABLE r IS 'mine'});
mallory($eu, 'GRANT ALL ON SCHEMA m TO team');
foreach my $owner ('team', 'mallory')
{
	is(mallory($eu, "ALTER TABLE r OWNER TO $owner; ALTER TABLE s OWNER TO $owner;
		SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relowner <> '$owner'::regrole AND relkind = 'r' AND relname ~ '^(r|s)(_|\$)'"), '', "both can be given to $owner");
}
mallory($eu, 'REVOKE ALL ON SCHEMA m FROM team');
mallory($us, q{SELECT dc_incr('r', 'good', 3)});
is(wait_for($eu, 'postgres', q{SELECT dc_get('m.r', 'good')}, '3'), '3', 'its own rows that are right come');
still('DDL');

# What a REINDEX that was canceled leaves keeps no rows from coming, and the owner from nothing
my $writer = dc_session($eu, 'postgres');
$writer->run('BEGIN; LOCK TABLE m.r_region, m.s_grant IN ROW EXCLUSIVE MODE');
fails_with($eu, 'postgres', "SET statement_timeout = '5s'; SET SESSION AUTHORIZATION mallory; REINDEX INDEX CONCURRENTLY m.$_", '57014', "$_: canceled") foreach 'r_region_pkey', 's_grant_pkey';
$writer->run('ROLLBACK');
$writer->quit;
is(sql($eu, 'postgres', q{SELECT string_agg(relname, ' ' ORDER BY 1) FROM pg_class WHERE relname ~ '_ccnew$'}), 'r_region_pkey_ccnew s_grant_pkey_ccnew', 'invalid indexes are left');
mallory($eu, $_) foreach ('REVOKE SELECT ON r_region FROM PUBLIC', 'REVOKE ALL ON s FROM team', 'ALTER TABLE r_region SET (fillfactor = 50), ALTER inc SET NOT NULL', 'ALTER TABLE r ALTER inc SET STATISTICS 10', 'CREATE STATISTICS st (dependencies) ON key, region FROM r_region; DROP STATISTICS st');
mallory($us, "SELECT dc_incr('r', 'left', 3); INSERT INTO s_grant VALUES ('left', 'us', 5, 'eu', $epoch, 4)");
is(wait_for($eu, 'postgres', q{SELECT dc_get('m.r', 'left') + dc_get('m.s', 'left')}, '7'), '7', 'rows come');
still('an index that is left');
mallory($eu, 'REINDEX INDEX CONCURRENTLY r_region_pkey');
mallory($eu, 'DROP INDEX r_region_pkey_ccnew, s_grant_pkey_ccnew');
still('which are dropped');

# Tables made by hand do not make a counter a replicated one
sql($_, 'postgres', 'CREATE ROLE poor; CREATE SCHEMA p AUTHORIZATION poor; GRANT pg_read_all_data TO poor') foreach @nodes;
sql($us, 'postgres', q{SET SESSION AUTHORIZATION poor; SELECT dc_create('p.c'); CREATE TABLE p.c_region (LIKE m.r_region INCLUDING ALL); CREATE TABLE p.c_set (LIKE m.r_set INCLUDING ALL); DROP TABLE p.c_shard; SELECT dc_adopt('p.c'), dc_incr('p.c', 'k')});
is(sql($us, 'postgres', q{SELECT regions, dc_get('p.c', 'k') FROM dcounter.counter WHERE counter = 'p.c'::regclass}), '|1', 'tables by hand are not adopted');
sql($us, 'postgres', 'SET SESSION AUTHORIZATION poor; ALTER TABLE p.c DROP CONSTRAINT c_pkey; ALTER TABLE p.c_set DROP CONSTRAINT c_set_pkey');
still('tables by hand');

# Code on the table of totals does not run when units come
mallory($eu, q{CREATE INDEX ON s ((one(1) + inc)); CREATE OR REPLACE FUNCTION one(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$no$$; END'});
mallory($us, "INSERT INTO s_grant VALUES ('t', 'us', 5, 'eu', $epoch, 3)");
is(wait_for($eu, 'postgres', q{SELECT sum(units) FROM m.s_shard WHERE key = 't'}, '3'), '3', 'units come');
still('an index on the table of totals');

# An index that is not for old snapshots
my $old = dc_session($eu, 'postgres');
$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
mallory($eu, q{INSERT INTO r_shard VALUES ('hot', 5, 1, 0, now())});
mallory($eu, q{UPDATE r_shard SET inc = 2 WHERE key = 'hot'});
mallory($eu, q{ALTER TABLE r_shard DROP CONSTRAINT r_shard_pkey, ADD PRIMARY KEY (key, shard)});
is(sql($eu, 'postgres', q{SELECT indcheckxmin FROM pg_index WHERE indrelid = 'm.r_shard'::regclass}), 't', 'an index that is young');
mallory($us, q{SELECT dc_incr('r', 'good', 3)});
is(wait_for($eu, 'postgres', q{SELECT inc FROM m.r_region WHERE key = 'good'}, '6'), '6', 'rows come');
still('an index that is young');
$old->run('ROLLBACK');
$old->quit;

# A counter that could not be merged into is not replicated
mallory($us, q{SELECT dc_create('code'); ALTER TABLE code_shard ADD CHECK (one(inc) > 0)});
fails_with($us, 'postgres', q{SET SESSION AUTHORIZATION mallory; SELECT dc_replicate('m.code')}, '55000', 'a check on shard rows');
mallory($us, q{SELECT dc_create('parts', partitions => 2)});
fails_with($us, 'postgres', q{SET SESSION AUTHORIZATION mallory; SELECT dc_replicate('m.parts')}, '55000', 'partitions');

# A table that is not here stops the link, and one statement makes it anew when it is
sql($us, 'postgres', q{SELECT dc_create('later'); SELECT dc_replicate('later'); SELECT dc_incr('later', 'k', 5)});
is(wait_for($eu, 'postgres', q{SELECT sum(apply_errors) > 0 FROM dc_regions()}, 't'), 't', 'a table that is missing');
sql($eu, 'postgres', q{SELECT dc_create('later'); SELECT dc_replicate('later')});
sql($eu, 'postgres', "SELECT dc_region_join('us', '" . ($us->connstr('postgres') =~ s/'/''/gr) . "', trust_owners => true, anew => true) \\gexec");
region_copied($eu);
is(wait_for($eu, 'postgres', q{SELECT dc_get('later', 'k')}, '5'), '5', 'the link is made anew');
is(wait_for($eu, 'postgres', q{SELECT dc_get('likes', 'a')}, $n), $n, 'and nothing is counted twice');
is(sql($_, 'postgres', q{SELECT state FROM dc_regions() WHERE link_state IS NULL}), 'active', $_->name . ' is what it was') foreach @nodes;

# Others' rights and publications are nobody's business, whatever is locked
sql($eu, 'postgres', 'CREATE ROLE other; CREATE SCHEMA other AUTHORIZATION other; GRANT CREATE ON DATABASE postgres TO other; CREATE PUBLICATION kept FOR TABLE m.r_region; ALTER PUBLICATION kept OWNER TO other');
my $lock = dc_session($eu, 'postgres');
$lock->run('BEGIN; LOCK TABLE m.r_region, m.s_want');
sql($eu, 'postgres', q{SET statement_timeout = '60s'; SET SESSION AUTHORIZATION other; CREATE TABLE other.t (a int); GRANT SELECT ON other.t TO PUBLIC; REVOKE SELECT ON other.t FROM PUBLIC; ALTER PUBLICATION kept ADD TABLE other.t});
my $publish = q{SET statement_timeout = '60s'; SET SESSION AUTHORIZATION other; ALTER PUBLICATION kept SET (publish = 'insert')};
fails_with($eu, 'postgres', $publish, '55P03', 'options of a publication do not wait for a table in it');
$lock->run('ROLLBACK');
sql($eu, 'postgres', "$publish; DROP PUBLICATION kept");
$lock->quit;

# A row that has more of eu than eu has: it may be a copy, so all is to be copied; but it takes no new epoch, which would cost the stocks their units
my $self = q{SELECT epoch FROM dcounter.self};
my $before = sql($eu, 'postgres', $self);
$passed = sql($eu, 'postgres', q{SELECT sum(rows_passed_over) FROM dc_stat_counters WHERE counter::text LIKE 'm.%'}); # the copy has counted again
passed('more than eu has', qq{INSERT INTO r_set VALUES ('own', 'us', 5, 1, false, '{"eu:$before": {"inc": 1000000}}')}, 1);
is(wait_for($eu, 'postgres', q{SELECT state FROM dc_regions() WHERE link_state IS NULL}, 'recopy'), 'recopy', 'all is to be copied');
is(sql($eu, 'postgres', $self), $before, 'under the same epoch');

# Where the library is not preloaded, it is loaded before the command
my $cold = region_node('cold', "shared_preload_libraries = ''");
sql($cold, 'postgres', q{CREATE ROLE mallory; CREATE SCHEMA m AUTHORIZATION mallory; GRANT EXECUTE ON FUNCTION dc_replicate(regclass, boolean) TO mallory});
mallory($cold, q{SELECT dc_create('r'); SELECT dc_replicate('r'); CREATE UNIQUE INDEX a ON r (key); ALTER TABLE r DROP CONSTRAINT r_pkey});
fails_with($cold, 'postgres', "SET SESSION AUTHORIZATION mallory; $_", '55000', "$_: refused without preload") foreach 'CREATE INDEX CONCURRENTLY i ON m.r_set (hlc)', 'DROP INDEX CONCURRENTLY m.a';
$cold->stop;

# Rights that have gone in a way that is not seen: what would be merged as the owner is passed over
sql($eu, 'postgres', 'ALTER SCHEMA m OWNER TO other');
passed('a grant to an owner without rights', "INSERT INTO s_grant VALUES ('v', 'us', 5, 'eu', $epoch, 3)", 1);
passed('a want likewise', q{INSERT INTO s_want VALUES ('v', 'us', 5, 5, 5, 2, 0, 0, 2, 50, 0, 0, 'infinity', 0, 0)}, 1);
sql($eu, 'postgres', 'ALTER SCHEMA m OWNER TO mallory');
mallory($us, "DELETE FROM s_grant WHERE key = 'v'; INSERT INTO s_grant VALUES ('v', 'us', 5, 'eu', $epoch, 4)");
is(wait_for($eu, 'postgres', q{SELECT sum(units) FROM m.s_shard WHERE key = 'v'}, '4'), '4', 'a copy brings what was passed over');
unlike(slurp_file($_->logfile), qr/XX000|PANIC|signal 11/, 'no internal error') foreach @nodes;

$_->stop foreach @nodes;
done_testing();
