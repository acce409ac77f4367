# Ways in which the database of a region is set back, for tests: each is saved while the server
# runs, or was saved before, and later replaces the server's folder. A saved state belongs to one
# server: its name, and a number.
package DcRestore;

use strict;
use warnings;

use DcTest;
use Exporter 'import';
use File::Copy;
use File::Path;
use File::Spec;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

our @EXPORT = qw(restore_ways restore_conf restore_leaves_no_trace restore_save restore_meanwhile restore_back restore_workers);

# snapshot: the folder of a server that was stopped; crash: of one that has crashed; old: one from long before; early: from before it
# knew other regions; backup; pitr: to a restore point after the backup; dump: on a new server; standby: promoted; clone:
# a backup that is started while the original continues; renewed: not set back, but told so
my @ways = ('snapshot', 'crash', 'old', 'early', 'backup', 'pitr', 'dump', 'standby', 'clone', 'renewed');
my %saved;    # servers beside the original
my $archives = File::Spec->rel2abs(PostgreSQL::Test::Utils::tempdir());
my $pristine;

sub restore_ways
{
	return @ways;
}

# restore_leaves_no_trace(WAY): whether the database cannot see it by its server alone
sub restore_leaves_no_trace
{
	return $_[0] =~ /^(snapshot|crash|old|early)$/;
}

# archive(NAME): of a server
sub archive
{
	return "$archives/$_[0]";
}

# restore_conf(NAME): lines of its configuration
sub restore_conf
{
	my ($name) = @_;

	mkpath(archive($name));
	return ('archive_mode = on', "archive_command = 'cp \"%p\" \"" . archive($name) . "/%f\"'");
}

# place(NODE, NAME): where a folder is kept
sub place
{
	my ($node, $name) = @_;

	return $node->backup_dir . "/$name";
}

# restore_save(NODE, WAY, NAME): for "old" and "early", NAME is that of the way
sub restore_save
{
	my ($node, $way, $name) = @_;

	if ($way =~ /^(snapshot|crash|old|early)$/)
	{
		$node->stop($way eq 'crash' ? 'immediate' : 'fast');
		mkpath($node->backup_dir);
		PostgreSQL::Test::RecursiveCopy::copypath($node->data_dir, place($node, $name));
		$node->start;
	}
	unlink glob(archive($node->name) . '/*') if $way =~ /^(backup|pitr|standby|clone)$/; # there may be files of the same names, from before it was set back
	$node->backup($name) if $way =~ /^(backup|pitr|standby|clone)$/;
	if ($way eq 'dump')
	{
		mkpath($node->backup_dir);
		PostgreSQL::Test::Utils::system_or_bail('pg_dump', '-Fc', '-f', place($node, $name), '-d', $node->connstr('postgres'));
	}
	if ($way eq 'standby')
	{
		$saved{ $node->name } = PostgreSQL::Test::Cluster->new($node->name . "_$name");
		$saved{ $node->name }->init_from_backup($node, $name, has_streaming => 1);
		$saved{ $node->name }->start;
	}
	return;
}

# restore_meanwhile(NODE, WAY, NAME): what is done later, while the original still runs
sub restore_meanwhile
{
	my ($node, $way, $name) = @_;

	if ($way eq 'pitr')
	{
		my $file = sql($node, 'postgres', "SELECT pg_walfile_name(pg_create_restore_point('$name'))");

		sql($node, 'postgres', 'SELECT pg_switch_wal() IS NOT NULL');
		is(wait_for($node, 'postgres', "SELECT last_archived_wal >= '$file' FROM pg_stat_archiver", 't'), 't', "$file is in the archive");
	}
	if ($way eq 'clone')
	{
		my $clone = PostgreSQL::Test::Cluster->new($node->name . "_$name");

		$clone->init_from_backup($node, $name);
		$clone->append_conf('postgresql.conf', 'max_logical_replication_workers = 0');
		$clone->start;
		$saved{ $node->name } = $clone;
	}
	return;
}

# restore_back(NODE, WAY, NAME, WORKERS): restores the earlier state of the stopped server, and
# starts it
sub restore_back
{
	my ($node, $way, $name, $workers) = @_;

	if ($way =~ /^(snapshot|crash|old|early|backup|pitr)$/)
	{
		rmtree($node->data_dir);
		PostgreSQL::Test::RecursiveCopy::copypath(place($node, $name), $node->data_dir);
		recover($node, $way eq 'pitr' ? "recovery_target_name = '$name'" : "recovery_target = 'immediate'") if $way =~ /^(backup|pitr)$/;
	}
	move_here($node, $way) if $way =~ /^(standby|clone)$/;
	new_server($node) if $way eq 'dump';
	chmod 0700, $node->data_dir;
	$node->append_conf('postgresql.conf', "primary_conninfo = ''\nport = " . $node->port . "\nmax_logical_replication_workers = " . ($workers ? 20 : 0));
	$node->start;
	if ($way eq 'dump')
	{
		PostgreSQL::Test::Utils::system_or_bail('pg_restore', '-d', $node->connstr('postgres'), place($node, $name));
	}
	is(wait_for($node, 'postgres', 'SELECT pg_is_in_recovery()', 'f'), 'f', $node->name . " is set back: $way");
	# a backup of this one, later on, is not to stop where it has
	$node->append_conf('postgresql.conf', "recovery_target = ''\nrecovery_target_name = ''") if $way =~ /^(backup|pitr)$/;
	sql($node, 'postgres', 'SELECT dc_region_renew()') if $way eq 'renewed';
	return;
}

# recover(NODE, TARGET): from the archive
sub recover
{
	my ($node, $target) = @_;

	$node->append_conf('postgresql.conf', "restore_command = 'cp \"" . archive($node->name) . "/%f\" \"%p\"'\n$target\nrecovery_target_action = 'promote'");
	append_to_file($node->data_dir . '/recovery.signal', '');
	return;
}

# move_here(NODE, WAY): the other server takes its place
sub move_here
{
	my ($node, $way) = @_;
	my $other = delete $saved{ $node->name };

	$other->promote if $way eq 'standby';
	$other->stop('fast');
	rmtree($node->data_dir);
	move($other->data_dir, $node->data_dir) or die "could not move: $!";
	return;
}

# new_server(NODE): an empty one, with the same configuration
sub new_server
{
	my ($node) = @_;
	my $conf = slurp_file($node->data_dir . '/postgresql.conf');
	my $hba = slurp_file($node->data_dir . '/pg_hba.conf');

	if (!defined $pristine)
	{
		$pristine = PostgreSQL::Test::Cluster->new('pristine');
		$pristine->init(extra => [ '-E', 'UTF8', '--locale=C' ]);
	}
	rmtree($node->data_dir);
	PostgreSQL::Test::RecursiveCopy::copypath($pristine->data_dir, $node->data_dir);
	unlink $node->data_dir . '/postgresql.conf', $node->data_dir . '/pg_hba.conf';
	append_to_file($node->data_dir . '/postgresql.conf', $conf);
	append_to_file($node->data_dir . '/pg_hba.conf', $hba);
	return;
}

# restore_workers(NODE): the server is started with the workers of links
sub restore_workers
{
	my ($node) = @_;

	$node->append_conf('postgresql.conf', 'max_logical_replication_workers = 20');
	$node->restart;
	return;
}

1;
