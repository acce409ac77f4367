# Replicated counters of an owner who is no superuser, on real servers. Before PostgreSQL 16 links to them are
# refused, unless the owner is declared trusted. Code that the owner then puts on the tables stops the
# link with an error that names it, and does not run; when the owner has removed it, the rows that have arrived
# meanwhile are merged, and nothing is lost. The values of other owners, whose rows come by the same link, are right
# in the end, too.
use strict;
use warnings;

use DcRegion;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @nodes = map { region_node($_) } 'eu', 'us';
my ($eu, $us) = @nodes;
my $old = sql($us, 'postgres', 'SHOW server_version_num') < 160000;
my $connection = $eu->connstr('postgres') =~ s/'/''/gr;
my $counted = 0;

# mallory(NODE, STATEMENTS): as mallory
sub mallory
{
	my ($node, $sql) = @_;

	return sql($node, 'postgres', "SET SESSION AUTHORIZATION mallory; SET search_path = m, public; $sql");
}

# join_us(ARGUMENTS): us is to get what eu counts: status and errors
sub join_us
{
	my ($arguments) = @_;
	my ($status, $out, $err) = $us->psql('postgres', "\\set VERBOSITY verbose\nSELECT dc_region_join('eu', '$connection'$arguments) \\gexec", on_error_stop => 1);

	return ($status, $err);
}

# count_more(FIRST): eu counts, in both counters. Keys come in order: of a key that is new, or of one that is there,
# is the first row.
sub count_more
{
	my ($first) = @_;

	$counted += 3;
	sql($eu, 'postgres', q{SELECT dc_incr('likes', 'key 1', 3); INSERT INTO counted VALUES ('key 1', 3)});
	mallory($eu, "SELECT dc_incr('marks', 'a', 3), dc_incr('marks', '" . ($first eq 'new' ? 0 : 'b') . " ' || clock_timestamp())");
	return;
}

# arrived(NAME): all of it is in us
sub arrived
{
	my ($name) = @_;
	my $keys = sql($eu, 'postgres', q{SELECT count(*) || ' ' || sum(dc_get('m.marks', key)) FROM (SELECT key FROM m.marks UNION SELECT key FROM m.marks_shard) AS u});

	is(wait_for($us, 'postgres', q{SELECT count(*) || ' ' || sum(dc_get('m.marks', key)) FROM (SELECT key FROM m.marks UNION SELECT key FROM m.marks_shard) AS u}, $keys), $keys, "$name: all has come");
	is(wait_for($us, 'postgres', q{SELECT dc_get('m.marks', 'a') || ' ' || dc_get('likes', 'key 1')}, "$counted $counted"), "$counted $counted", "$name: with its values");
	is(sql($us, 'postgres', q{SELECT keys FROM dc_region_check('m.marks') WHERE region IS NULL}), '0', "$name: which are what regions have counted");
	return;
}

# who(OFFSET): the roles as which its code has run since then, according to the log: a failed
# transaction leaves nothing else
sub who
{
	my ($from) = @_;
	my %who = map { $_ => 1 } slurp_file($us->logfile, $from) =~ /LOG:  spying as (\w+)/g;

	return join(' ', sort keys %who);
}

# by_superuser(NODE, STATEMENTS): as a superuser, to whom statements are allowed that mallory is
# refused
sub by_superuser
{
	my ($node, $sql) = @_;

	return sql($node, 'postgres', "SET search_path = m, public; $sql");
}

# obstacle(NAME, STATEMENT, STATEMENT, ERROR [, RUNS]): mallory cannot do something; a superuser does it instead, and removes
# it. With RUNS the server calls its code before the trigger that merges.
sub obstacle
{
	my ($name, $put, $remove, $error, $runs) = @_;
	my ($from, $log);

	fails_with($us, 'postgres', "SET SESSION AUTHORIZATION mallory; SET search_path = m, public; BEGIN; $put", qr/42809|55000/, "$name: refused to the owner");
	by_superuser($us, $put);
	$from = -s $us->logfile; # (statements that rewrite the table call it as well)
	count_more($runs ? 'new' : 'old');
	foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		$log = slurp_file($us->logfile, $from);
		last if $log =~ /ERROR:  "marks_region" is not as dcounter created it.*?DETAIL:  \Q$error\E/s;
		select(undef, undef, undef, 0.1);
	}
	like($log, qr/ERROR:  "marks_region" is not as dcounter created it.*?DETAIL:  \Q$error\E/s, "$name: the log says what is wrong");
	is(who($from), '', "$name: none of its code has run") if !$runs;
	is(who($from), $old ? sql($us, 'postgres', 'SELECT current_user') : 'mallory', "$name: as whom it has run") if $runs;
	by_superuser($us, $remove);
	count_more('new');
	arrived($name);
	return;
}

foreach my $node (@nodes)
{
	sql($node, 'postgres', q{CREATE ROLE mallory; CREATE SCHEMA m AUTHORIZATION mallory; GRANT EXECUTE ON FUNCTION dc_replicate(regclass, boolean) TO mallory});
	mallory($node, q{
		CREATE FUNCTION spy(anyelement) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RAISE LOG 'spying as %', current_user; RETURN true; END$$;
		CREATE FUNCTION spy_trigger() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE LOG 'spying as %', current_user; RETURN NEW; END$$;
		SELECT dc_create('marks'); SELECT dc_replicate('marks')});
}

# Refused, with all that is there
my ($status, $err) = join_us('');
if ($old)
{
	isnt($status, 0, 'its code would run as a superuser: refused');
	like($err, qr/ERROR:  55000: before PostgreSQL 16, links between regions require trust in the owners of tables/, 'and it is said why');
	like($err, qr/HINT:  .*trust_owners => true/, 'and what to do');
	is(sql($us, 'postgres', 'SELECT count(*) FROM pg_subscription'), '0', 'there is no link');
}
else
{
	is($status, 0, 'its code runs as mallory: not refused');
}
($status, $err) = join_us(', trust_owners => true');
is($status, 0, 'with trust_owners') or diag($err);
region_copied($us);
count_more('old');
arrived('a link');

# Each obstacle
obstacle('a check', 'ALTER TABLE marks_region ADD CONSTRAINT c CHECK (spy(inc)) NOT VALID', 'ALTER TABLE marks_region DROP CONSTRAINT c', 'It has a check constraint.');
obstacle('a generated column', 'ALTER TABLE marks_region ADD g boolean GENERATED ALWAYS AS (spy(inc)) STORED', 'ALTER TABLE marks_region DROP g', 'It must be a plain table');
obstacle('an expression of an index', 'CREATE INDEX i ON marks_region (spy(inc))', 'DROP INDEX i', 'It has an index with an expression or a condition');
obstacle('a condition of an index', 'CREATE INDEX i ON marks_region (epoch) WHERE spy(inc)', 'DROP INDEX i', 'It has an index with an expression or a condition');
obstacle('a rule', 'CREATE RULE r AS ON INSERT TO marks_region DO ALSO SELECT spy(1)', 'DROP RULE r ON marks_region', 'It has a rule.');
obstacle('policies', 'CREATE POLICY p ON marks_region USING (spy(inc)); ALTER TABLE marks_region ENABLE ROW LEVEL SECURITY', 'ALTER TABLE marks_region DISABLE ROW LEVEL SECURITY; DROP POLICY p ON marks_region', 'It has row-level security.');
obstacle('a trigger for users', 'CREATE TRIGGER spy BEFORE INSERT OR UPDATE ON marks_region FOR EACH ROW EXECUTE FUNCTION spy_trigger()', 'DROP TRIGGER spy ON marks_region', 'It has a trigger.');
foreach my $kind ('REPLICA', 'ALWAYS')
{
	obstacle("a trigger, $kind", "CREATE TRIGGER spy BEFORE INSERT OR UPDATE ON marks_region FOR EACH ROW EXECUTE FUNCTION spy_trigger(); ALTER TABLE marks_region ENABLE $kind TRIGGER spy", 'DROP TRIGGER spy ON marks_region', 'It has a trigger.');
}
obstacle('a trigger after', 'CREATE TRIGGER a AFTER INSERT OR UPDATE ON marks_region FOR EACH ROW EXECUTE FUNCTION spy_trigger(); ALTER TABLE marks_region ENABLE ALWAYS TRIGGER a', 'DROP TRIGGER a ON marks_region', 'It has a trigger.');
# What the server calls before. For this it has to be trusted.
obstacle('a trigger before', 'CREATE TRIGGER a BEFORE INSERT OR UPDATE ON marks_region FOR EACH ROW EXECUTE FUNCTION spy_trigger(); ALTER TABLE marks_region ENABLE ALWAYS TRIGGER a', 'DROP TRIGGER a ON marks_region', 'It has a trigger.', 1);
obstacle('a default', q{ALTER TABLE marks_region ADD more boolean; ALTER TABLE marks_region ALTER more SET DEFAULT spy(1)}, 'ALTER TABLE marks_region DROP more', 'It must be a plain table', 1);

# Refused again
if ($old)
{
	($status, $err) = join_us('');
	like($err, qr/ERROR:  55000: before PostgreSQL 16, links between regions require trust/, 'the next time: refused');
}

# He cannot have code at events of DDL, nor use the functions of dcounter's triggers
fails_with($us, 'postgres', q{SET SESSION AUTHORIZATION mallory; CREATE FUNCTION m.e() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'; CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION m.e()}, '42501', 'event triggers are for superusers');
fails_with($us, 'postgres', q{SET SESSION AUTHORIZATION mallory; CREATE TABLE m.t (LIKE m.marks_region); CREATE TRIGGER t BEFORE INSERT ON m.t FOR EACH ROW EXECUTE FUNCTION dcounter.merge_region()}, '42501', 'the trigger that merges is not its');
is(sql($us, 'postgres', q{SELECT apply_error_count > 0 FROM pg_stat_subscription_stats}), 't', 'the errors are counted');
unlike(slurp_file($us->logfile), qr/XX000|PANIC|signal 11/, 'no internal error');

$_->stop foreach @nodes;
done_testing();
