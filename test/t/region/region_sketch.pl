# Sketches of three servers that replicate to each other (dcounter.merge_row()): dc_hll, and dc_cms and dc_topk, which
# add up, in a row for each key and server. Users write to all of them. Links are cut, a server is killed, tables are
# copied again and again, and a server takes another name, as one does that was restored from a backup. In
# the end all servers say the same of all rows together, and that is what sketches of all items say.
use strict;
use warnings;

use DcLinks;
use DcMerge;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = torture(3, 60);
my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

# Few items a key, so that all sketches are exact: a difference is an error, not an estimate
my $writer = q{
\set id random(1, 8)
\set item random_exponential(1, 30, 4)
BEGIN;
INSERT INTO seen (key, users, freq, top) VALUES ('key ' || :id, dc_hll_add(dc_hll(), 'item ' || :item), dc_cms_add(dc_cms(0.01, 0.01), 'item ' || :item), dc_topk_add(dc_topk(5), 'item ' || :item))
	ON CONFLICT (key, node) DO UPDATE SET users = dc_hll_add(seen.users, 'item ' || :item), freq = dc_cms_add(seen.freq, 'item ' || :item), top = dc_topk_add(seen.top, 'item ' || :item);
INSERT INTO counted VALUES (:id, :item);
COMMIT;
};

# What all rows of a key say together
my $together = q{
	SELECT key, dc_hll_count(users), (SELECT string_agg(dc_cms_estimate(f, 'item ' || i)::text, ' ' ORDER BY i) FROM generate_series(1, 30) AS i),
		(dc_cms_info(f)).total_weight, (SELECT string_agg(item || '=' || estimate, ' ' ORDER BY rank) FROM dc_topk_list(t))
	FROM (SELECT key, dc_hll_union_agg(users) AS users, dc_cms_union_agg(freq) AS f, dc_topk_union_agg(top) AS t FROM SOURCE GROUP BY key) AS u ORDER BY key};

# is_sound(NAME, NODES)
sub is_sound
{
	my ($name, @nodes) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my (%weight, @values, @rows, $truth);

	foreach my $node (@nodes)
	{
		foreach (split /\n/, sql($node, 'postgres', 'SELECT id, amount, count(*) FROM counted GROUP BY 1, 2'))
		{
			my ($id, $item, $n) = split /\|/;

			$weight{"('key $id', 'item $item'"} += $n;
		}
	}
	my $items = join(', ', map { "$_, $weight{$_})" } sort keys %weight);
	my $all = "(SELECT key, dc_hll_agg(item) AS users, dc_cms_agg(item, 0.01, 0.01, n) AS freq, dc_topk_agg(item, 5, n) AS top FROM (VALUES $items) AS i(key, item, n) GROUP BY key) AS a";
	$truth = sql($nodes[0], 'postgres', $together =~ s/SOURCE/$all/r);
	do
	{
		sleep(0.2);
		@values = map { answer($_, 'postgres', $together =~ s/SOURCE/seen/r) } @nodes;
		@rows = map { answer($_, 'postgres', 'SELECT s::text FROM seen AS s ORDER BY key, node') } @nodes;
	} until (!grep({ $_ ne $truth } @values) && !grep({ $_ ne $rows[0] } @rows)) || time > $end;
	isnt($truth, '', "$name: there are some");
	is($values[$_], $truth, "$name: " . $nodes[$_]->name . ' says what sketches of all items say') foreach 0 .. $#nodes;
	is($rows[$_], $rows[0], "$name: " . $nodes[$_]->name . ' has the rows that ' . $nodes[0]->name . ' has') foreach 1 .. $#nodes;
	return;
}

# users(NODE, SECONDS): starts to write
sub users
{
	my ($node, $time) = @_;

	return start_command('pgbench', '-n', '-j', 1, '-c', 3, '-T', $time, '-f', file_of('sketch ' . $node->name . '.sql', $writer), $node->connstr('postgres'));
}

my @nodes = map { merge_node($_) } 'eu', 'us', 'asia';
foreach my $node (@nodes)
{
	sql($node, 'postgres', q{
		CREATE TABLE seen (key text, node text DEFAULT dc_node(), users dc_hll, freq dc_cms, top dc_topk, PRIMARY KEY (key, node)) WITH (fillfactor = 50);
		CREATE TRIGGER merge BEFORE INSERT OR UPDATE ON seen FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row();
		ALTER TABLE seen ENABLE ALWAYS TRIGGER merge;
		ALTER PUBLICATION p SET TABLE seen});
}
foreach my $to (@nodes)
{
	link_make($_, $to, 'p') foreach grep { $_ != $to } @nodes;
}

my @jobs = map { users($_, $seconds) } @nodes;
link_written($_) foreach @jobs;
is_sound('mesh', @nodes);
is(sql($nodes[0], 'postgres', 'SELECT count(DISTINCT key), count(DISTINCT node), count(*) FROM seen'), '8|3|24', 'mesh: a row for each key and server');

# A cut, and copies
@jobs = map { users($_, $seconds) } @nodes;
link_switch($nodes[1], 'DISABLE');
sleep($seconds / 3);
link_switch($nodes[1], 'ENABLE');
foreach (1 .. 2)
{
	sql($nodes[0], 'postgres', 'DROP SUBSCRIPTION from_us_to_eu');
	link_make($nodes[1], $nodes[0], 'p', 1);
	is(wait_for($nodes[0], 'postgres', q{SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'}, '0'), '0', 'a copy');
}
link_written($_) foreach @jobs;
is_sound('a cut, and copies', @nodes);

# A crash
@jobs = map { users($_, 2 * $seconds) } @nodes;
sleep($seconds / 2);
$nodes[1]->kill9;
sleep(0.5);
restart_after_kill9($nodes[1]);
push @jobs, users($nodes[1], $seconds);
link_written($_) foreach @jobs;
is_sound('a crash', @nodes);

# Another name: the rows of the old one stay, and count
sql($nodes[2], 'postgres', q{ALTER SYSTEM SET dcounter.node = 'asia:2'});
$nodes[2]->reload;
is(wait_for($nodes[2], 'postgres', 'SELECT dc_node()', 'asia:2'), 'asia:2', 'another name');
@jobs = map { users($_, $seconds) } @nodes;
link_written($_) foreach @jobs;
is_sound('another name', @nodes);
is(sql($nodes[0], 'postgres', 'SELECT count(DISTINCT node) FROM seen'), '4', 'another name: other rows');
foreach my $node (@nodes)
{
	is(join("\n", grep { /ERROR: / && !/could not|terminating|canceling|active for PID|server closed|no longer/ } split /\n/, slurp_file($node->logfile)), '', 'no errors on ' . $node->name);
}

$_->stop foreach @nodes;
done_testing();
