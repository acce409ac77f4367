# Random changes to text that is JSON, and to bytes that are a mergeable type's state:
# input that an attacker, or a faulty program, might send instead of a value.
package DcMutate;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(mutate_json mutate_bytes varint);

my @numbers = ('0', '-1', '-0', '1', '1.0', '1.5', '1e3', '-1e-3', '00', '0x1', 'NaN', '"5"', '2147483648', '4294967296',
	'4611686018427387904', '9223372036854775807', '9223372036854775808', '18446744073709551616',
	'253402300799999999', '253402300800000000', '1e400', '1e131071', '1e-16383', '1e131072', '1e999999999');
my @strings = ('', 'a', 'b', 'inc', 'dec', 'inc_reset', 'dec_reset', 'elements', 'values', 'value', 'dots', 'seen', 'time', 'node',
	'\u0000', '\u0001', '\u007f', '\u00e9', '\ud800', '\udc00\ud800', '\ud83d\ude00', '\u12', '\x', '\n', '\\\\', '\"', "\x01", "\x00", "\xff", "\xc3\xa9",
	"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", 'n' x 64, 'n' x 65, "\xc3\xa9" x 32, "\xc3\xa9" x 33);
my @others = ('{', '}', '[', ']', ',', ':', '{}', '[]', 'null', 'true', 'false', ' ', "\t", "\n", '{"a": 1}', '[1, 2]', '[[1, 1]]', '[[2, 3], [5, 5]]', '{"a": [1]}');

sub one_of
{
	return $_[ int(rand(@_)) ];
}

# tokens(TEXT): that of JSON, white space left out
sub tokens
{
	my ($text) = @_;

	return $text =~ /("(?:[^"\\]|\\.)*"|-?[0-9.]+(?:[eE][-+]?[0-9]+)?|[a-z]+|\S)/gs;
}

sub random_token
{
	my $kind = rand;

	return $kind < 0.4 ? one_of(@numbers) : $kind < 0.8 ? '"' . one_of(@strings) . '"' : one_of(@others);
}

# like(TOKEN): another one of its kind
sub like
{
	my ($token) = @_;

	return one_of(@numbers) if $token =~ /^-?[0-9]/;
	return '"' . one_of(@strings) . '"' if $token =~ /^"/;
	return one_of(@others);
}

# part(TOKENS): where a value begins, with all that is in it, and how long it is
sub part
{
	my ($tokens) = @_;
	my $from = int(rand(@$tokens));
	my $depth = 0;

	for my $i ($from .. $#$tokens)
	{
		$depth += $tokens->[$i] =~ /^[\[{]$/ ? 1 : $tokens->[$i] =~ /^[\]}]$/ ? -1 : 0;
		return ($from, $i - $from + 1) if $depth <= 0;
	}
	return ($from, 1);
}

# one change of tokens; the list may become empty
my @token_changes = (
	sub { my ($t) = @_; my $i = int(rand(@$t)); $t->[$i] = like($t->[$i]) },
	sub { my ($t) = @_; my @i = grep { $t->[$_] =~ /^[-0-9"]/ } 0 .. $#$t; @i = (0) if !@i; my $i = one_of(@i); $t->[$i] = like($t->[$i]) },
	sub { my ($t) = @_; $t->[ rand(@$t) ] = random_token() },
	sub { my ($t) = @_; splice(@$t, int(rand(@$t)), 1) },
	sub { my ($t) = @_; splice(@$t, int(rand(@$t + 1)), 0, random_token()) },
	# a member twice, elsewhere, or not at all
	sub { my ($t) = @_; my ($from, $n) = part($t); splice(@$t, $from, 0, @$t[ $from .. $from + $n - 1 ], ',') },
	sub { my ($t) = @_; my ($from, $n) = part($t); my @part = splice(@$t, $from, $n); splice(@$t, int(rand(@$t + 1)), 0, @part) },
	sub { my ($t) = @_; my ($from, $n) = part($t); splice(@$t, $from, $n) },
	sub { my ($t) = @_; my ($from, $n) = part($t); my $to = int(rand(@$t)); splice(@$t, $to, 1, @$t[ $from .. $from + $n - 1 ]) },
	# a key twice: the last one counts
	sub { my ($t) = @_; my @i = grep { $t->[$_] eq ':' } 1 .. $#$t; return if !@i; my $i = one_of(@i); splice(@$t, $i - 1, 0, $t->[ $i - 1 ], ':', random_token(), ',') },
	# deeper
	sub { my ($t) = @_; my ($from, $n) = part($t); my $depth = one_of(1, 1, 1, 2, 50); splice(@$t, $from, $n, ('[') x $depth, @$t[ $from .. $from + $n - 1 ], (']') x $depth) },
	sub { my ($t) = @_; my ($from, $n) = part($t); splice(@$t, $from, $n, '{', random_token(), ':', @$t[ $from .. $from + $n - 1 ], '}') },
);

# mutate_json(TEXT): it with one change or a few
sub mutate_json
{
	my ($text) = @_;

	for (1 .. one_of(1, 1, 1, 1, 2, 3))
	{
		my @tokens = tokens($text);

		return mutate_bytes($text) if !@tokens || rand() < 0.1;
		one_of(@token_changes)->(\@tokens);
		$text = join(rand() < 0.9 ? ' ' : '', @tokens);
	}
	return $text;
}

# varint(NUMBER): as states have numbers; sizes that are no numbers of Perl are given as bytes
sub varint
{
	my ($number) = @_;
	my $bytes = '';

	while ($number >= 0x80)
	{
		$bytes .= chr($number & 0x7f | 0x80);
		$number >>= 7;
	}
	return $bytes . chr($number);
}

my @bytes = map { chr } 0, 1, 2, 0x11, 0x21, 0x31, 0x41, 0x51, 0x61, 0x71, 0x81, 0x12, 0x1f, 0x20, 0x22, 0x5b, 0x7b, 0x7f, 0x80, 0xc3, 0xed, 0xff;
my @varints = ((map { varint($_) } 127, 128, 2**20, 2**20 + 1, 2**26, 2**31 - 1, 2**31, 2**32, 2**62, 9223372036854775807),
	"\x80\x00", "\xff" x 9 . "\x01", "\xff" x 10, "\x80" x 9);

my @byte_changes = (
	sub { my ($b) = @_; substr($b, rand(length $b), 1) = chr(int(rand(256))); $b },
	sub { my ($b) = @_; my $i = int(rand(length $b)); substr($b, $i, 1) = chr(ord(substr($b, $i, 1)) ^ 1 << int(rand(8))); $b },
	sub { my ($b) = @_; my $i = int(rand(length $b)); substr($b, $i, 1) = chr((ord(substr($b, $i, 1)) + one_of(1, -1)) & 0xff); $b },
	sub { my ($b) = @_; substr($b, rand(length $b), 1) = one_of(@bytes); $b },
	sub { my ($b) = @_; substr($b, rand(length($b) + 1), 0) = one_of(@bytes); $b },
	sub { my ($b) = @_; substr($b, rand(length $b), 1) = one_of(@varints); $b },
	sub { my ($b) = @_; substr($b, rand(length $b), 1) = ''; $b },
	sub { my ($b) = @_; substr($b, rand(length $b), rand(8)) = ''; $b },
	sub { my ($b) = @_; my $i = int(rand(length $b)); substr($b, rand(length $b), 0) = substr($b, $i, 1 + rand(8)); $b },
	sub { my ($b) = @_; substr($b, 0, 1 + rand(length $b)) },
	sub { my ($b) = @_; $b . one_of(@bytes) },
);

# mutate_bytes(BYTES): them with one change or a few
sub mutate_bytes
{
	my ($bytes) = @_;

	for (1 .. one_of(1, 1, 1, 2, 3))
	{
		return $bytes if $bytes eq '';
		$bytes = one_of(@byte_changes)->($bytes);
	}
	return $bytes;
}

1;
