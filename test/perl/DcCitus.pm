# A coordinator and two workers with Citus, for the tests of distributed counter tables. Where there is no
# Citus, they are skipped.
package DcCitus;

use strict;
use warnings;

use DcTest;
use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(citus_or_skip citus_nodes citus_counter on_workers);

# citus_or_skip(): ends the test here if this PostgreSQL has no Citus
sub citus_or_skip
{
	my ($share, $errors);

	IPC::Run::run([ $ENV{PG_CONFIG} // 'pg_config', '--sharedir' ], '>', \$share, '2>', \$errors);
	chomp $share;
	plan skip_all => "no Citus: $share/extension/citus.control is not there"
	  if !-e "$share/extension/citus.control";
	return;
}

# citus_nodes([key => value...]): coordinator and workers, with both extensions, which know each other. Options: conf (lines),
# workers => 0 to leave them out of the coordinator's list.
sub citus_nodes
{
	my (%option) = @_;
	my @conf = (
		"shared_preload_libraries = 'citus, dcounter'",
		# the nodes' certificates do not matter here
		"citus.node_conninfo = 'sslmode=disable'",
		'citus.enable_statistics_collection = off',
		# the next request finds out whether a worker is there again
		'citus.recover_2pc_interval = 1s',
		'max_worker_processes = 24',
		@{ $option{conf} // [] });
	my @nodes;

	foreach my $name ('coordinator', 'worker1', 'worker2')
	{
		my $node = dc_node($name, extension => 0, init => { allows_streaming => 'logical' }, conf => [ @conf, 'max_connections = 120' ]);

		sql($node, 'postgres', 'CREATE EXTENSION citus');
		# how a node connects to itself
		sql($node, 'postgres', sprintf(q{ALTER SYSTEM SET citus.local_hostname = '%s'}, $node->host));
		$node->reload;
		push @nodes, $node;
	}
	my ($coordinator, @workers) = @nodes;

	sql($coordinator, 'postgres', sprintf(q{SELECT citus_set_coordinator_host('%s', %d)}, $coordinator->host, $coordinator->port));
	sql($coordinator, 'postgres', sprintf(q{SELECT citus_add_node('%s', %d)}, $_->host, $_->port)) foreach @workers;
	sql($coordinator, 'postgres', 'CREATE EXTENSION dcounter');
	return @nodes;
}

# citus_counter(COORDINATOR, NAME [, ARGUMENTS]): a counter table over both workers
sub citus_counter
{
	my ($coordinator, $name, $arguments) = @_;

	sql($coordinator, 'postgres', "SELECT dc_create('$name'" . ($arguments // '') . qq{);
		SELECT create_distributed_table('$name', 'key', shard_count => 8);
		SELECT create_distributed_table('${name}_shard', 'key', colocate_with => '$name')});
	return;
}

# on_workers(COORDINATOR, QUERY): the sum of a number that is asked of each worker
sub on_workers
{
	my ($coordinator, $query) = @_;

	return sql($coordinator, 'postgres', "SELECT sum(result::int8) FROM run_command_on_workers(\$q\$$query\$q\$)");
}

1;
