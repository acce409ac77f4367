# A client of make chaos or make owners: sends statements to a psql, one after the other,
# until a file appears, and begins again with another psql when it loses its connection. Its
# arguments are
#
#   CONNSTR ROLE CLIENT SEED STOP OUT
#
# and OUT says what was seen:
#   bad TEXT     an error that should not be
#   hang TEXT    no answer in time, and who waits for whom
#   seen WHAT N  how often (lost connections, errors by SQLSTATE)
package DcClient;

use strict;
use warnings;

use DcPsql;
use IO::Handle;
use Time::HiRes qw(sleep);

# The errors with which any statement may end: serialization failures, deadlocks, timeouts,
# cancellation, lost servers, and the consequences of an earlier error
my $expected = qr/^(?:40001|40P01|55P03|57014|57P0[123]|08\w{3}|25P02|53300|3B001): /;

# new(): by the arguments of the program
sub new
{
	my ($class) = @_;
	my $self = bless { seen => {} }, $class;

	(@$self{qw(connstr role client seed stop)}, my $file) = @ARGV;
	srand($self->{seed});
	open($self->{out}, '>', $file) or die "$file: $!";
	$self->{out}->autoflush(1);
	return $self;
}

# run(CONNSTR, PRELUDE, key => value...): until its end. next => sub() is the next statements,
# answered => sub(TEXT, SQL) gets what psql wrote about them; is_bad => sub(ERROR) says whether
# an error should not be, of those that not every statement may end with; lost or not,
# judged => sub(TEXT, SQL) may look for more. A label is put before what was seen. Other
# options are those of DcPsql.
sub run
{
	my ($self, $connstr, $prelude, %option) = @_;
	my $parent = getppid();

	@$self{qw(is_bad judged)} = delete @option{qw(is_bad judged)};
	my ($next, $answered, $label) = delete @option{qw(next answered label)};
	my $psql = DcPsql->new($connstr, $prelude, on_lost => sub { $self->judge(@_); $self->{seen}{'lost connections'}++ },
		on_hang => sub { $self->hang(@_) }, %option);

	$self->{psql} = $psql;
	$SIG{TERM} = sub { $psql->lost; exit 1 };
	# nor longer than the test that has started it
	until (-e $self->{stop} || getppid() != $parent)
	{
		if (!$psql->connected)
		{
			sleep(0.1);
			next;
		}
		my $sql = $next->();
		my $text = $psql->ask($sql) // next;

		$self->judge($text, $sql);
		$answered->($text, $sql);
	}
	$psql->lost;
	$self->say('seen ' . ($label // '') . "$_ $self->{seen}{$_}") foreach sort keys %{ $self->{seen} };
	close $self->{out} or die "OUT: $!";
	return;
}

# saw(WHAT [, N]): one more, or N
sub saw
{
	my ($self, $what, $n) = @_;

	$self->{seen}{$what} += $n // 1;
	return;
}

# say(LINE...): into OUT
sub say
{
	my ($self, @lines) = @_;

	print { $self->{out} } map { "$_\n" } @lines;
	return;
}

# hang(SQL): no answer
sub hang
{
	my ($self, $sql) = @_;

	chomp(my @waiters = $self->{psql}->waiters);
	$self->say('hang ' . DcPsql::one_line($sql), map { "hang   $_" } @waiters);
	return;
}

# judge(TEXT, SQL): counts the errors, and notes those that should not be
sub judge
{
	my ($self, $text, $sql) = @_;

	foreach (DcPsql::errors_in($text))
	{
		my ($error, $more) = @$_;

		$self->saw(substr($error, 0, 5));
		$self->say('bad ' . DcPsql::one_line("$error $more in: $sql")) if $error !~ $expected && $self->{is_bad}->($error);
	}
	$self->{judged}->($text, $sql) if $self->{judged};
	return;
}

1;
