# dc_region restore under load: a region is set back, in one of several ways, while users count in the others, and soon in it as
# well; the program is killed at any moment, and called again. In the end all regions have, key by key, what was
# counted in all of them: the other regions had received the lost counts. make torture does it many
# times.
use strict;
use warnings;

use DcLinks;
use DcRegion;
use DcTest;
use File::Path;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

my $limit = $PostgreSQL::Test::Utils::timeout_default;
my @nodes = map { region_node($_, "dcounter.region_beat_interval = '500ms'") } 'eu', 'us', 'ap';
my $config = file_of('regions.conf', join '', map { $_->name . ' = ' . $_->connstr('postgres') . "\n" } @nodes);
my @kinds = ('snapshot', 'snapshot, without workers', 'backup', 'backup, without workers', 'renewed by hand');
my $done = 0;

# program(ARGUMENT...): a test
sub program
{
	my (@arguments) = @_;
	my $job = start_command('dc_region', '-c', $config, '--trust-owners', "--timeout=$limit", @arguments);
	my $status = finish_job($job);

	return is($status, 0, "dc_region @arguments") || diag($job->{out} . $job->{err});
}

# killed(ARGUMENT...): it is killed while it is at work
sub killed
{
	my (@arguments) = @_;
	my $job = start_command('dc_region', '-c', $config, '--trust-owners', @arguments);

	sleep(rand(2));
	$job->{run}->signal('KILL');
	finish_job($job);
	note("killed:\n$job->{out}$job->{err}");
	return;
}

# have_the_truth(NAME): in the end all have it
sub have_the_truth
{
	my ($name) = @_;
	my $truth = region_truth(@nodes);
	my $end = time + $limit;
	my @values;

	do
	{
		sleep(0.3);
		@values = map { region_values($_) } @nodes;
	} until !grep({ $_ ne $truth } @values) || time > $end;
	is($values[$_], $truth, "$name: " . $nodes[$_]->name . ' has what was counted') foreach 0 .. $#nodes;
	return;
}

# set_back(NODE, KIND): what it was before
sub set_back
{
	my ($node, $kind) = @_;
	my $workers = $kind =~ /without workers/ ? 0 : 20;

	return sql($node, 'postgres', 'SELECT dc_region_renew()') if $kind eq 'renewed by hand';
	$node->stop('fast');
	rmtree($node->data_dir);
	PostgreSQL::Test::RecursiveCopy::copypath($node->backup_dir . "/$done", $node->data_dir);
	chmod 0700, $node->data_dir;
	$node->append_conf('postgresql.conf', 'port = ' . $node->port . "\nmax_logical_replication_workers = $workers");
	if ($kind =~ /^backup/)
	{
		$node->append_conf('postgresql.conf', "restore_command = 'false'\nrecovery_target = 'immediate'\nrecovery_target_action = 'promote'");
		append_to_file($node->data_dir . '/recovery.signal', '');
	}
	$node->start;
	wait_for($node, 'postgres', 'SELECT pg_is_in_recovery()', 'f');
	return;
}

program('add', 'eu', 'us', 'ap');
foreach my $round (1 .. torture(1, 20))
{
	my $node = $nodes[rand(@nodes)];
	my @others = grep { $_ != $node } @nodes;
	my $kind = $kinds[rand(@kinds)];
	my @jobs;
	my $saved;

	$done = $round;
	note("round $round: " . $node->name . ", $kind");
	@jobs = map { region_count($_, 2) } @nodes;
	if ($kind =~ /^snapshot/)
	{
		link_written($_) foreach @jobs;
		$node->stop('fast');
		mkdir $node->backup_dir;
		PostgreSQL::Test::RecursiveCopy::copypath($node->data_dir, $node->backup_dir . "/$round");
		$node->start;
		@jobs = map { region_count($_, 2) } @nodes;
	}
	$node->backup($round) if $kind =~ /^backup/;
	link_written($_) foreach @jobs;
	have_the_truth("round $round, before");

	# what it has counted is with the others; the table of that is not
	$saved = sql($node, 'postgres', q{SELECT string_agg(format('(%L, %s)', key, amount), ', ') FROM (SELECT key, sum(amount) AS amount FROM counted GROUP BY key, amount > 0) AS c});
	@jobs = map { region_count($_, 15) } @others;
	set_back($node, $kind);
	sql($node, 'postgres', "TRUNCATE counted; INSERT INTO counted VALUES $saved");
	push @jobs, region_count($node, 10) if $kind !~ /without workers/;
	killed('restore', $node->name) foreach 1 .. torture(2, 2 + int rand 4);
	if ($kind =~ /without workers/)
	{
		$node->append_conf('postgresql.conf', 'max_logical_replication_workers = 20');
		$node->restart;
		killed('restore', $node->name) foreach 1 .. torture(2, 2 + int rand 4);
	}
	program('restore', $node->name);
	link_written($_) foreach @jobs;
	have_the_truth("round $round, $kind");
	program('check');
}
$_->stop('immediate') foreach @nodes;
done_testing();
