# Runs doc/regions-operation.md, regions-recovery.md, regions-reference.md and regions-internals.md: their blocks, as they are
# written, on one server for each name that is in their marks ("sql on eu", "sh on us"). A procedure begins with three regions in
# a mesh, as its page does. So a test runs the sections that make these, and then those that it is about.
#
# A block that only reads is repeated until its result is that of the page, because counts from
# elsewhere arrive a little later. All others run once. Steps in between that are not for readers
# are in comments <!-- test: ... -->; do_test() implements them. doc/regions.md is run the same way,
# by region_page().
package DcRegionDoc;

use strict;
use warnings;

use DcDoc;
use DcTest;
use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(region_doc region_page region_doc_sections);

my @first = ('Before', 'Three regions');
my @pages = ('regions-operation.md', 'regions-recovery.md', 'regions-reference.md', 'regions-internals.md');
my @all = ('eu', 'us', 'ap');

# Users who count while something is done; what they have counted is in "counted" of their region
my $writer = q{
\set id random(1, 20)
\set amount random(-3, 7)
BEGIN;
SELECT dc_incr('likes', 'load ' || :id, :amount);
INSERT INTO counted VALUES ('load ' || :id, :amount);
COMMIT;
\sleep 2 ms
};

my (%nodes, %serves, @jobs, @counting, $retry, $compared, $conf, @steps, $version);
my $truth = ''; # what users have counted
my $folder;     # of backups

# region_doc(SECTIONS): runs these, of any of the pages
sub region_doc
{
	run_sections(\@pages, @first, @_);
	return;
}

# region_page(FILE, SECTIONS): runs these of a page
sub region_page
{
	my ($page, @sections) = @_;

	run_sections([$page], @sections);
	return;
}

# pages_steps(FILES): those of several pages; "line" names the page, too
sub pages_steps
{
	my @found;

	foreach my $page (@_)
	{
		push @found, map { +{ %$_, line => "$page:$_->{line}" } } steps("$ENV{TESTDIR}/doc/$page");
	}
	return @found;
}

# run_sections(FILES, SECTIONS): the first file has the configuration
sub run_sections
{
	my ($files, @sections) = @_;

	@steps = pages_steps(@$files);
	($conf) = slurp_file("$ENV{TESTDIR}/doc/$files->[0]") =~ /^```text\n(wal_level = .*?)^```$/ms;
	$compared = 0;
	foreach my $section (@sections)
	{
		my @of = grep { $_->{section} eq $section } @steps;

		cmp_ok(scalar(@of), '>', 0, "there is something to do in \"$section\"") if $section ne $first[0];
		note("== $section");
		step($_) foreach @of;
	}
	cmp_ok($compared, '>', 4, 'results were compared');
	foreach my $name (grep { -e $nodes{$_}->logfile } sort keys %nodes)
	{
		# of workers: a line that psql has caused has its name before the error
		my @errors = grep { /\[\d+\] (?:ERROR|PANIC): / && !/could not|terminating|canceling|connection to server|recovery|no longer|server closed|active for PID/ } split /\n/, slurp_file($nodes{$name}->logfile);

		is(join("\n", @errors), '', "no errors of workers on $name");
		$nodes{$name}->stop('immediate') if defined $nodes{$name}->{_pid};
	}
	return;
}

# region_doc_sections(): the sections that have something to do
sub region_doc_sections
{
	my %seen = map { $_ => 1 } @first;

	return grep { !$seen{$_}++ } map { $_->{section} } pages_steps(@pages);
}

# node(NAME): the server of a name, which is made when it is needed
sub node
{
	my ($name) = @_;

	$nodes{$name} //= do
	{
		my $node = dc_node($name, extension => 0, init => { allows_streaming => 'logical', has_archiving => 1 }, conf => [
				$conf, 'fsync = off', "wal_retrieve_retry_interval = '100ms'", "dcounter.compact_interval = '200ms'", 'autovacuum = off' ]);
		sql($node, 'postgres', 'CREATE DATABASE shop TEMPLATE template0');
		$node;
	};
	return $nodes{$name};
}

# empty_node(NAME): one that has no data yet
sub empty_node
{
	my ($name) = @_;

	$nodes{$name} //= PostgreSQL::Test::Cluster->new($name);
	return $nodes{$name};
}

# server(NAME): the server that answers to eu.example.com, for example
sub server
{
	my ($name) = @_;

	return node($serves{$name} // $name);
}

sub step
{
	my ($step) = @_;

	note(sprintf '%.1f s', time - $^T);
	$version //= PostgreSQL::Test::Cluster->new('version')->pg_version;
	trust($step) if $version < 16;
	if ($step->{mark} eq 'test')
	{
		note("$step->{line}: $step->{text}");
		do_test($step->{text});
	}
	elsif ($step->{mark} eq 'sh')
	{
		run_shell($step);
	}
	else
	{
		run_block($_, $step) foreach $step->{where} eq 'all' ? @all : $step->{where};
	}
	return;
}

# trust(STEP): adds what the pages say that PostgreSQL 15 needs
sub trust
{
	my ($step) = @_;

	$step->{text} =~ s/(dc_region_(?:join|refresh)\((?:'[^']*'|[^'()])*)\)/$1, trust_owners => true)/g;
	$step->{text} =~ s/^(dc_region (?:add|join|refresh|restore)\b.*)$/$1 --trust-owners/gm;
	return;
}

# run_block(NAME, BLOCK): tests
sub run_block
{
	my ($where, $block) = @_;
	my $node = node($where);
	my $name = "$block->{line}, $where";
	my $sql = "\\pset null NULL\n" . compared($block->{text});
	my $again = $retry || reads($block->{text});
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my ($status, $out, $err, @results);

	undef $retry;
	$sql =~ s/host=(\w+)\.example\.com/'host=' . server($1)->host . ' port=' . server($1)->port/ge;
	for (;;)
	{
		($status, $out, $err) = $node->psql('shop', $sql);
		@results = results($out);
		last if !$again || time > $end || ($status == 0 && !grep { $_->[0] ne $_->[1] } @results);
		sleep(0.2);
	}
	is($status, 0, "$name runs");
	note($err) if $err ne '';
	diag($err) if $status != 0;
	foreach my $result (@results)
	{
		is($result->[1], $result->[0], "$name: as it says");
		$compared++;
	}
	return;
}

# reads(SQL): whether it does nothing else
sub reads
{
	my ($sql) = @_;

	return 0 if $sql =~ /\\gexec|\bdc_(?:incr|decr|set|reset|delete|create|stock_create|replicate|unreplicate|restock|take|want|compact|region_init|region_renew|region_retire|region_repair|region_vacuum|rights_reclaim|hold\w*)\(|pg_(?:drop|create|switch)_|pg_replication_slot_/;
	$sql =~ s/'[^']*'//g;
	return !grep { /\S/ && !/^\s*(?:--.*\n\s*)*SELECT\b/ } split /;[^\n]*\n/, $sql;
}

# run_shell(BLOCK): a test. Its folders are in that of the test, and a server that is started has the port of
# its name.
sub run_shell
{
	my ($block) = @_;
	my $node = empty_node($block->{where});
	my $script = $block->{text};

	$folder //= PostgreSQL::Test::Utils::tempdir();
	$script =~ s/-h (\w+)\.example\.com/'-h ' . server($1)->host . ' -p ' . server($1)->port/ge;
	$script =~ s/host=(\w+)\.example\.com/'host=' . server($1)->host . ' port=' . server($1)->port/ge;
	$script =~ s{/archive/(\w+)}{node($1)->archive_dir}ge;
	$script =~ s{/backup\b}{$folder}g;
	local $ENV{FOLDER} = $folder;
	local $ENV{PGDATA} = $node->data_dir;
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = 'shop';
	local $ENV{SERVER_LOG} = $node->logfile;
	local $ENV{OLD_BIN} = $node->config_data('--bindir');
	local $ENV{NEW_BIN} = $ENV{OLD_BIN};
	my $file = file_of(($block->{line} =~ s/:/ /r) . '.sh', q{
set -e
cd "$FOLDER"
pg_ctl() {
    if [ "$1" = start ]; then
        printf "port = %s\nunix_socket_directories = '%s'\n" "$PGPORT" "$PGHOST" >>"$PGDATA/postgresql.conf"
    fi
    command pg_ctl -w -l "$SERVER_LOG" "$@"
}
} . $script);
	my $result = IPC::Run::run([ 'bash', $file ], '<', File::Spec->devnull, '>', "$file.out", '2>&1');
	ok($result, "$block->{line}, $block->{where}: the shell") or diag(slurp_file("$file.out"));
	note(slurp_file("$file.out"));
	$node->_update_pid(-e $node->data_dir . '/postmaster.pid' ? 1 : 0);
	return;
}

# do_test(TEXT): actions and checks in addition to those of the page
sub do_test
{
	my ($what) = @_;

	if ($what =~ /^sql on (\w+): (.*)$/)
	{
		sql(node($1), 'shop', $2);
	}
	# the next block is repeated until it succeeds
	elsif ($what eq 'until it succeeds')
	{
		$retry = 1;
	}
	elsif ($what =~ /^wait on (\w+): (.*) = (\S+)$/)
	{
		is(wait_for(node($1), 'shop', $2, $3), $3, "$1: $2");
	}
	# as a machine that breaks
	elsif ($what =~ /^kill (\w+)$/)
	{
		node($1)->kill9;
	}
	elsif ($what =~ /^start (\w+)$/)
	{
		restart_after_kill9(node($1));
	}
	elsif ($what =~ /^conf on (\w+): (.*)$/)
	{
		node($1)->append_conf('postgresql.conf', $2);
		node($1)->reload;
	}
	# users count, until "counted"
	elsif ($what =~ /^count on (.*)$/)
	{
		@counting = split / /, $1;
		sql(node($_), 'shop', 'CREATE TABLE IF NOT EXISTS counted (key text, amount bigint)') foreach @counting;
		@jobs = map { start_command('pgbench', '-n', '-c', 2, '-T', 600, '-f', file_of("count $_.sql", $writer), node($_)->connstr('shop')) } @counting;
		sleep(1);
	}
	elsif ($what eq 'counted')
	{
		$_->{run}->signal('TERM') foreach @jobs; # INT may be ignored, as by what a shell runs in the background
		finish_job($_) foreach @jobs;
		$truth = truth();
	}
	# a server keeps too much for regions that are away
	elsif ($what =~ /^lose the slots of (\w+)$/)
	{
		lose_slots($1);
	}
	# another server takes the place of one
	elsif ($what =~ /^(\w+) is (\w+) from now on$/)
	{
		$serves{$1} = $2;
	}
	elsif ($what =~ /^equal: (.*)$/)
	{
		equal(map { node($_) } split / /, $1);
	}
	else
	{
		fail("no such thing: $what");
	}
	return;
}

# lose_slots(NAME): it gives up the slots of regions that are away. The slots of the other regions
# must not be lost as well: so they first advance beyond the removed WAL. A checkpoint writes the
# records that they need for that.
sub lose_slots
{
	my ($name) = @_;
	my $node = node($name);
	my $lost = q{SELECT count(*) > 0 FROM pg_replication_slots WHERE wal_status = 'lost'};

	sql($node, 'shop', 'CREATE TABLE filling AS SELECT 1 AS one; DROP TABLE filling; SELECT pg_switch_wal()');
	my $here = sql($node, 'shop', 'SELECT pg_current_wal_lsn()');
	my $behind = "SELECT count(*) FROM pg_replication_slots WHERE restart_lsn < '$here'";

	for (my $n = 0; $n < 100 && sql($node, 'shop', $behind) ne '1'; $n++)
	{
		sql($node, 'shop', 'CHECKPOINT');
		sleep(0.1);
	}
	is(sql($node, 'shop', $behind), '1', "$name keeps old WAL for one region only");
	$node->append_conf('postgresql.conf', "max_slot_wal_keep_size = '1MB'");
	$node->reload;
	for (my $n = 0; $n < 100 && sql($node, 'shop', $lost) ne 't'; $n++)
	{
		sql($node, 'shop', 'CHECKPOINT');
		sleep(0.1);
	}
	is(sql($node, 'shop', $lost), 't', "$name has given up a slot");
	return;
}

# equal(NODES): in the end they have the same, key by key, of each region and epoch, and that is what users
# have counted
sub equal
{
	my (@of) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my @counters = split /\n/, sql($of[0], 'shop', 'SELECT counter FROM dcounter.counter WHERE regions IS NOT NULL AND regions <> 0 ORDER BY 1');

	cmp_ok(scalar(@counters), '>', 0, 'there are replicated counters');
	foreach my $counter (@counters)
	{
		my $values = qq{SELECT key, sum(inc), sum(dec) FROM (SELECT key, inc, dec FROM $counter UNION ALL SELECT key, inc, dec FROM ${counter}_shard) AS u GROUP BY key HAVING sum(inc) > 0 OR sum(dec) > 0 ORDER BY key};
		my (@values, @checks);

		do
		{
			sleep(0.2);
			@values = map { answer($_, 'shop', $values) } @of;
			@checks = map { answer($_, 'shop', "SELECT * FROM dc_region_check('$counter')") } @of;
		} until (!grep({ $_ ne $values[0] } @values) && !grep({ $_ ne $checks[0] } @checks) && loaded($values[0], $counter) eq $truth) || time > $end;
		is($values[$_], $values[0], "$counter: " . $of[$_]->name . ' has what ' . $of[0]->name . ' has') foreach 1 .. $#of;
		is($checks[$_], $checks[0], "$counter: and of each region") foreach 1 .. $#of;
		like($checks[0], qr/^\|\|0\|0\|0\|$/m, "$counter: values are what regions have counted");
		is(loaded($values[0], $counter), $truth, "$counter: that is what users have counted");
	}
	return;
}

# truth(): what users have counted
sub truth
{
	my (%inc, %dec);

	foreach my $node (map { node($_) } @counting)
	{
		foreach (split /\n/, answer($node, 'shop', 'SELECT key, coalesce(sum(amount) FILTER (WHERE amount > 0), 0), coalesce(-sum(amount) FILTER (WHERE amount < 0), 0) FROM counted GROUP BY key'))
		{
			my ($key, $more, $less) = split /\|/;

			$inc{$key} += $more;
			$dec{$key} += $less;
		}
	}
	return join("\n", map { "$_|$inc{$_}|$dec{$_}" } sort keys %inc);
}

# loaded(VALUES, COUNTER): the values of the keys that they count
sub loaded
{
	my ($values, $counter) = @_;

	return $truth if $counter ne 'likes';
	return join("\n", grep { /^load / } split /\n/, $values);
}

1;
