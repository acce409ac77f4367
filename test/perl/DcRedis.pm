# A Redis server for the tests, a client that speaks its protocol, and its
# HyperLogLog values, register by register.
package DcRedis;

use strict;
use warnings;

use Exporter 'import';
use File::Spec;
use IO::Socket::UNIX;
use POSIX ();
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep time);

our @EXPORT_OK = qw(registers register_values);

use constant REGISTERS => 16384;

# program: the path of the server, undef if there is none. It is a server when
# it is called redis-server; Debian's redis-tools has it as redis-check-rdb.
sub program
{
	foreach my $name (qw(redis-server redis-check-rdb))
	{
		foreach my $folder (File::Spec->path)
		{
			return "$folder/$name" if -x "$folder/$name";
		}
	}
	return undef;
}

# start: a server that listens on a socket in a folder of its own only and writes
# nothing to disk, and a connection to it
sub start
{
	my ($class) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir_short();
	my $self = bless {
		socket => "$folder/socket",
		log => "$folder/log",
		buffer => ''
	}, $class;

	symlink(program(), "$folder/redis-server") or die "$folder/redis-server: $!";
	# A shell waits for the end of the test, however that comes, and stops it.
	my $guard = '"$@" </dev/null & read -r end; kill $!; wait';
	pipe(my $end, $self->{end}) or die "pipe: $!";
	$self->{pid} = fork() // die "fork: $!";
	if ($self->{pid} == 0)
	{
		open(STDIN, '<&', $end) and open(STDOUT, '>', $self->{log}) and open(STDERR, '>&', \*STDOUT)
		  and exec('sh', '-c', $guard, 'sh', "$folder/redis-server", '--port', '0', '--unixsocket', $self->{socket},
			'--save', '', '--appendonly', 'no', '--dir', $folder, '--daemonize', 'no');
		POSIX::_exit(1);
	}
	close $end;
	my $limit = time + $PostgreSQL::Test::Utils::timeout_default;
	until ($self->{connection} = IO::Socket::UNIX->new(Peer => $self->{socket}))
	{
		die 'redis-server does not run: ' . slurp_file($self->{log}) if time > $limit;
		sleep(0.02);
	}
	binmode $self->{connection};
	return $self;
}

sub stop
{
	my ($self) = @_;
	my $pid = delete $self->{pid} // return;

	close $self->{end};
	waitpid($pid, 0);
	return;
}

# The status that the test exits with must not be that of the server.
sub DESTROY
{
	my ($self) = @_;
	local ($?, $!);

	$self->stop;
	return;
}

# command(WORD...): the reply, a list for an array, undef for nil; an error dies
sub command
{
	my ($self, @words) = @_;

	return ($self->pipeline(\@words))[0];
}

# pipeline([WORD...]...): all commands are sent before the first reply is read,
# so the replies must be small; a list of the replies
sub pipeline
{
	my ($self, @commands) = @_;
	my $message = join('', map { request(@$_) } @commands);
	my $sent = 0;

	while ($sent < length $message)
	{
		my $n = syswrite($self->{connection}, $message, 1 << 20, $sent) // die "redis-server: $!";
		$sent += $n;
	}
	return map { $self->reply } @commands;
}

sub request
{
	my (@words) = @_;

	return '*' . @words . "\r\n" . join('', map { '$' . length($_) . "\r\n$_\r\n" } @words);
}

sub reply
{
	my ($self) = @_;
	my $line = $self->line;
	my $kind = substr($line, 0, 1, '');

	return $line if $kind eq '+' || $kind eq ':';
	die "Redis says: $line\n" if $kind eq '-';
	return undef if $line < 0;
	return [ map { $self->reply } 1 .. $line ] if $kind eq '*';
	die "Redis replies with '$kind'" if $kind ne '$';
	$self->receive while length $self->{buffer} < $line + 2;
	my $value = substr($self->{buffer}, 0, $line, '');
	substr($self->{buffer}, 0, 2, '');
	return $value;
}

sub line
{
	my ($self) = @_;
	my $end;

	$self->receive while ($end = index($self->{buffer}, "\r\n")) < 0;
	my $line = substr($self->{buffer}, 0, $end, '');
	substr($self->{buffer}, 0, 2, '');
	return $line;
}

sub receive
{
	my ($self) = @_;

	sysread($self->{connection}, $self->{buffer}, 1 << 16, length $self->{buffer})
	  or die 'redis-server has gone: ' . slurp_file($self->{log});
	return;
}

# registers(VALUE): the registers of a HyperLogLog value, dense or sparse, as the
# bits that they have in a dense one: 16384 times 6 characters 0 and 1, the
# lowest bit first
sub registers
{
	my ($value) = @_;
	my $encoding = ord(substr($value, 4, 1));
	my $body = substr($value, 16);
	my $bits = '';

	die 'not a HyperLogLog of Redis' if substr($value, 0, 4) ne 'HYLL';
	if ($encoding == 0)
	{
		die 'wrong length' if length $body != REGISTERS * 6 / 8;
		return unpack('b*', $body);
	}
	die "unknown encoding $encoding" if $encoding != 1;
	while ($body ne '')
	{
		my $op = ord(substr($body, 0, 1, ''));

		if ($op >= 128)
		{
			$bits .= unpack('b6', chr(($op >> 2 & 31) + 1)) x (($op & 3) + 1);
		}
		elsif ($op >= 64)
		{
			die 'XZERO is cut off' if $body eq '';
			$bits .= '000000' x (($op << 8 & 0x3f00 | ord(substr($body, 0, 1, ''))) + 1);
		}
		else
		{
			$bits .= '000000' x ($op + 1);
		}
	}
	die 'wrong number of registers: ' . length($bits) / 6 if length $bits != REGISTERS * 6;
	return $bits;
}

# register_values(VALUE): the same as numbers
sub register_values
{
	my ($value) = @_;

	return map { ord(pack('b6', $_)) } unpack('(a6)*', registers($value));
}

1;
