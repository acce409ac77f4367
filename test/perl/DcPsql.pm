# A psql that a client of make chaos or make owners sends statements to, and that it
# replaces when the connection is lost. Every wait for an answer has a limit.
package DcPsql;

use strict;
use warnings;

use DcChaos::Mix;
use IO::Handle;
use IO::Select;
use Time::HiRes qw(time);

# new(CONNSTR, PRELUDE, key => value...): "prelude" is SQL that each session begins with.
# on_lost => sub(TEXT, SQL) gets what a session wrote whose connection ended in the meantime,
# on_hang => sub(SQL) is called when there is no answer within "limit" seconds (45).
sub new
{
	my ($class, $connstr, $prelude, %option) = @_;

	$SIG{PIPE} = 'IGNORE';
	return bless { connstr => $connstr, prelude => $prelude, limit => 45, marks => 0, %option }, $class;
}

# connected: whether there is a psql, after trying to start one
sub connected
{
	my ($self) = @_;

	return 1 if defined $self->{pid};
	pipe(my $in_read, $self->{to}) && pipe($self->{from}, my $out_write) or die "pipe: $!";
	$self->{pid} = fork() // die "fork: $!";
	if (!$self->{pid})
	{
		open(STDIN, '<&', $in_read) && open(STDOUT, '>&', $out_write) && open(STDERR, '>&', $out_write) or die;
		close $_ foreach $self->{to}, $self->{from};
		exec('psql', '-XAt', '-v', 'VERBOSITY=verbose', '-d', $self->{connstr}) or die "psql: $!";
	}
	close $_ foreach $in_read, $out_write;
	$self->{to}->autoflush(1);
	return defined $self->ask("$self->{prelude}SELECT setseed(" . sprintf('%.6f', rand()) . ");\n");
}

# lost: ends a psql that is no longer usable
sub lost
{
	my ($self) = @_;

	return if !defined $self->{pid};
	close $_ foreach $self->{to}, $self->{from};
	kill 'TERM', $self->{pid};
	waitpid($self->{pid}, 0);
	undef $self->{pid};
	return;
}

# ask(SQL): what psql writes until it has come to the end of it; undef if it ends before
sub ask
{
	my ($self, $sql) = @_;
	my $mark = 'mark ' . ++$self->{marks};
	my $text = '';
	my $end = time + $self->{limit};
	my $ready = IO::Select->new($self->{from});

	print { $self->{to} } guarded($sql), "\n\\echo $mark\n";
	until ($text =~ /^$mark$/m)
	{
		if (!$ready->can_read($end - time > 0 ? $end - time : 0))
		{
			$self->{on_hang}->($sql);
			$self->lost;
			return;
		}
		if (!sysread($self->{from}, $text, 65536, length $text))
		{
			$self->{on_lost}->($text, $sql);
			$self->lost;
			return;
		}
	}
	return $text;
}

# guarded(SQL): the same, except for a BEGIN that fails, as it may be cancelled like any statement:
# what follows it must not be run then, statement by statement and at another level
sub guarded
{
	my ($sql) = @_;

	return $sql =~ s/^(BEGIN[^;]*;\n)(.*)/$1\\if :ERROR\nROLLBACK;\n\\else\n$2\\endif/sr;
}

# waiters: what sessions are doing
sub waiters
{
	my ($self) = @_;
	local $ENV{PGOPTIONS} = '-c statement_timeout=5s';

	open(my $psql, '-|', 'psql', '-XAt', '-d', $self->{watch} // $self->{connstr}, '-c', q{
		SELECT pid, usename, backend_type, state, wait_event, clock_timestamp() - state_change, pg_blocking_pids(pid), left(regexp_replace(query, '\s+', ' ', 'g'), 100)
		FROM pg_stat_activity WHERE state <> 'idle' OR backend_type ~ 'dcounter'}) or return;
	return <$psql>;
}

# one_line(TEXT): for a message
sub one_line
{
	my ($text) = @_;

	return substr($text =~ s/\s+/ /gr, 0, 1500);
}

# errors_in(TEXT): [error with its SQLSTATE, what psql says besides] each
sub errors_in
{
	my ($text) = @_;
	my @errors;

	while ($text =~ /(?:ERROR|FATAL|PANIC):  (\w{5}: .*)/g)
	{
		my $error = $1;
		my ($more) = $text =~ /\Q$error\E\n((?:(?:DETAIL|CONTEXT|LOCATION|HINT).*\n?|  .*\n?)*)/;

		push @errors, [ $error, $more // '' ];
	}
	return @errors;
}

1;
