# Shared by the tests of regions: servers that are one region each and count in the same counter,
# links between them, users who count, and the conditions that must hold when all is idle.
package DcRegion;

use strict;
use warnings;

use DcLinks;
use DcTest;
use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(region_node region_copied region_count
  region_is_sound region_values region_truth region_errors
  region_mesh region_agrees region_refresh region_state);

# Several sessions count on few keys, so that they conflict. "counted" is not replicated: it shows
# what has been committed here.
my $writer = q{
\set id random(1, 40)
\set other random(1, 40)
\set amount random(-3, 7)
BEGIN;
SELECT dc_incr('likes', 'key ' || :id, :amount), dc_decr('likes', 'key ' || :other);
INSERT INTO counted VALUES ('key ' || :id, :amount), ('key ' || :other, -1);
COMMIT;
};

# region_node(NAME [, CONF...]): a server, which is the region of its name, and counts "likes".
# Nothing but counting writes WAL.
sub region_node
{
	my ($name, @conf) = @_;
	my $node = dc_node($name, init => { allows_streaming => 'logical' }, conf => [
			link_conf(), "shared_preload_libraries = 'dcounter'", "dcounter.compact_interval = '200ms'", "dcounter.region_beat_interval = '1min'", @conf ]);

	sql($node, 'postgres', qq{
		SELECT dc_region_init('$name');
		SELECT dc_create('likes');
		SELECT dc_replicate('likes');
		CREATE TABLE counted (key text, amount bigint)});
	return $node;
}

# region_copied(NODES): all tables have been copied
sub region_copied
{
	foreach my $node (@_)
	{
		is(wait_for($node, 'postgres', q{SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'}, '0'), '0', 'tables of ' . $node->name . ' are copied');
	}
	return;
}

# region_count(NODE, SECONDS): starts to count
sub region_count
{
	my ($node, $seconds) = @_;

	return link_write($node, $seconds, $writer);
}

# region_values(NODE): the amounts of each key, without what is not compacted
sub region_values
{
	my ($node) = @_;

	return answer($node, 'postgres', q{
		SELECT key, sum(inc), sum(dec) FROM (SELECT key, inc, dec FROM likes UNION ALL SELECT key, inc, dec FROM likes_shard) AS u GROUP BY key HAVING sum(inc) > 0 OR sum(dec) > 0 ORDER BY key});
}

# region_truth(NODES): what users have counted there, the same way
sub region_truth
{
	my (%inc, %dec);

	foreach my $node (@_)
	{
		foreach (split /\n/, sql($node, 'postgres', 'SELECT key, coalesce(sum(amount) FILTER (WHERE amount > 0), 0), coalesce(-sum(amount) FILTER (WHERE amount < 0), 0) FROM counted GROUP BY key'))
		{
			my ($key, $more, $less) = split /\|/;

			$inc{$key} += $more;
			$dec{$key} += $less;
		}
	}
	return join("\n", map { "$_|$inc{$_}|$dec{$_}" } sort keys %inc);
}

# region_errors(NODE): errors in its log, except for lost connections
sub region_errors
{
	my ($node) = @_;

	return join("\n", grep { /ERROR: / && !/could not|terminating connection|canceling|connection to server|recovery|no longer|server closed|active for PID/ } split /\n/, slurp_file($node->logfile));
}

# region_mesh(NODES): links from each to every other, as dc_region_join() makes them; also again,
# where a server was lost
sub region_mesh
{
	my (@nodes) = @_;

	foreach my $to (@nodes)
	{
		foreach my $from (grep { $_ != $to } @nodes)
		{
			foreach my $statement (split /\n/, sql($to, 'postgres', 'SELECT dc_region_join($$' . $from->name . '$$, $$' . $from->connstr('postgres') . '$$, trust_owners => true)'))
			{
				sql($to, 'postgres', $statement);
			}
		}
	}
	region_copied(@nodes);
	return;
}

# region_refresh(TO, FROM...): copies everything that the others know
sub region_refresh
{
	my ($to, @froms) = @_;

	foreach my $from (@froms)
	{
		foreach my $statement (split /\n/, sql($to, 'postgres', 'SELECT dc_region_refresh($$' . $from->name . '$$, $$' . $from->connstr('postgres') . '$$, trust_owners => true)'))
		{
			sql($to, 'postgres', $statement);
		}
	}
	return;
}

# region_state(NODE): its state, as dc_regions() shows it
sub region_state
{
	my ($node) = @_;

	return 'SELECT state FROM dc_regions() WHERE region = $$' . $node->name . '$$';
}

# region_agrees(NAME, VALUES, NODES): in the end each has these values ("a=1 b=2"), and the amounts of regions agree
sub region_agrees
{
	my ($name, $values, @nodes) = @_;
	my $check = q{SELECT string_agg(concat_ws(',', region, epoch, keys, inc, "dec", digest), ' ' ORDER BY region, epoch) FROM dc_region_check('likes')};
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @checks;

	foreach my $node (@nodes)
	{
		is(wait_for($node, 'postgres', q{SELECT string_agg(key || '=' || dc_get('likes', key), ' ' ORDER BY key) FROM (SELECT key FROM likes UNION SELECT key FROM likes_shard) AS u}, $values),
			$values, "$name: values of " . $node->name);
	}
	foreach my $node (@nodes)
	{
		is(wait_for($node, 'postgres', q{SELECT count(*) FROM likes_shard WHERE inc <> 0 OR dec <> 0}, '0'), '0', "$name: all is published and compacted on " . $node->name);
	}
	@checks = map { wait_for($_, 'postgres', $check, answer($nodes[0], 'postgres', $check)) } @nodes;
	is($checks[$_], $checks[0], "$name: " . $nodes[$_]->name . ' has the amounts of regions that ' . $nodes[0]->name . ' has') foreach 1 .. $#nodes;
	like($checks[0], qr/(^| )0,0,0$/, "$name: values are what regions have counted");
	return;
}

# region_is_sound(NAME, NODES): in the end each of these regions has what users have counted in all of
# them, each in the amounts of its region; no row was refused; and when nobody counts, WAL stops
sub region_is_sound
{
	my ($name, @nodes) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my $truth = region_truth(@nodes);
	my (@values, @checks);

	do
	{
		sleep(0.2);
		@values = map { region_values($_) } @nodes;
		@checks = map { answer($_, 'postgres', q{SELECT * FROM dc_region_check('likes')}) } @nodes;
	} until (!grep({ $_ ne $truth } @values) && !grep({ $_ ne $checks[0] } @checks)) || time > $end;
	is($values[$_], $truth, "$name: " . $nodes[$_]->name . ' has what was counted') foreach 0 .. $#nodes;
	is($checks[$_], $checks[0], "$name: " . $nodes[$_]->name . ' has the amounts of regions that ' . $nodes[0]->name . ' has') foreach 1 .. $#nodes;
	like($checks[0], qr/^\|\|0\|0\|0\|$/m, "$name: values are what regions have counted");
	isnt($truth, '', "$name: there are some");
	is(region_errors($_), '', "$name: no errors on " . $_->name) foreach @nodes;
	links_are_idle($name, @nodes);
	return;
}

1;
