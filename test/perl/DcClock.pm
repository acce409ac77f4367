# A server whose wall clock a test sets, while its monotonic clock continues. That begins as on a
# machine that was booted a moment ago.
package DcClock;

use strict;
use warnings;

use Exporter 'import';
use File::Basename qw(dirname);
use DcTest;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

our @EXPORT = qw(clock_prepare clock_step);

my $file;

# clock_prepare(): servers that are started from now on have a clock that can be set;
# false, if this is not Linux, there is no compiler, or the servers are built with
# AddressSanitizer, which wants to be loaded first
sub clock_prepare
{
	my $source = dirname(__FILE__) . '/../clock/clock_shim.c';
	my $shim = PostgreSQL::Test::Utils::tempdir() . '/clock_shim.so';
	my ($compiler) = grep { `$_ --version 2>/dev/null` } 'cc', 'gcc', 'clang';

	return 0 if $^O ne 'linux' || !defined $compiler || sanitized();
	system($compiler, '-O1', '-shared', '-fPIC', '-o', $shim, $source) == 0
	  or die "could not compile $source";
	$file = PostgreSQL::Test::Utils::tempdir() . '/clock_offset';
	clock_step(0);
	$ENV{LD_PRELOAD} = $shim;
	$ENV{DC_CLOCK_OFFSET} = $file;
	$ENV{DC_CLOCK_BOOT} = int(clock_gettime(CLOCK_MONOTONIC)) - 1;
	return 1;
}

# clock_step(SECONDS): the clock is so much ahead of the real one, from now on
sub clock_step
{
	my ($seconds) = @_;

	# in place: the servers have mapped the file
	open(my $handle, -e $file ? '+<' : '>', $file) or die "$file: $!";
	binmode $handle;
	syswrite($handle, pack('q', $seconds)) == 8 or die "$file: $!";
	close $handle or die "$file: $!";
	return;
}

1;
