# doc/limits.md does what it says: where a statement has its result in a comment after it, that is the result. And the
# middleware, called as a web server calls it, with a connection that goes through psql.
use strict;
use warnings;

use DcDoc;
use DcLimit;
use DcTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $page = "$ENV{TESTDIR}/doc/limits.md";
my $node = limit_node('example');
my $compared = 0;

foreach my $block (grep { $_->{mark} eq 'sql preload' } blocks($page))
{
	my ($status, $out, $err) = $node->psql('postgres', "\\pset null ''\n" . compared($block->{text}));

	is($status, 0, "line $block->{line} runs") or diag($err);
	foreach my $result (results($out))
	{
		my ($expected, $got) = @$result;

		# booleans within rows
		$got =~ s/(^|, )t(?=,|$)/$1true/g;
		$got =~ s/(^|, )f(?=,|$)/$1false/g;
		$got =~ s/\n/, /g;
		is($got, $expected, "line $block->{line}: as it says");
		$compared++;
	}
}
cmp_ok($compared, '>=', 15, 'results were compared');

SKIP:
{
	my ($python) = grep { `$_ --version 2>&1` =~ /^Python 3/ } 'python3', '/usr/bin/python3';

	skip 'no Python', 1 if !defined $python;
	my ($class) = slurp_file($page) =~ /^```python\n(.*?)^```$/ms;
	my $script = file_of('middleware.py', $class . <<'PYTHON');

import subprocess
import sys


class Cursor:
    def execute(self, statement, values):
        statement = statement.replace("%s", "'" + values[0].replace("'", "''") + "'")
        out = subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", sys.argv[1], "-c", statement],
                             check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL).stdout.decode()
        allowed, *numbers = out.strip().split("|")
        self.row = (allowed == "t", *map(int, numbers))

    def fetchone(self):
        return self.row


class Connection:
    def cursor(self):
        return Cursor()


def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello\n"]


limited = RateLimit(app, Connection())
for address in ["192.0.2.1"] * 4 + ["192.0.2.2"]:
    def start_response(status, headers):
        print(status, ",".join(name if name == "Content-Type" else name + "=" + value for name, value in headers))
    print(b"".join(limited({"REMOTE_ADDR": address}, start_response)).decode().strip())
PYTHON
	my ($out, $err) = run_command([ $python, $script, $node->connstr('postgres') ]);

	is($err, '', 'the middleware has no errors');
	my $policy = 'RateLimit-Policy="web";q=1000;w=86400';
	my $head = "Content-Type,$policy,RateLimit=\"web\"";
	# a unit comes back in 86.4 s
	like($out, qr/^200 OK \Q$head\E;r=2;t=8[0-7]\nhello
200 OK \Q$head\E;r=1;t=1[67]\d\nhello
200 OK \Q$head\E;r=0;t=2[3-6]\d\nhello
/, 'it lets the first ones pass');
	like($out, qr/429 Too Many Requests \Q$policy\E,RateLimit="web";r=0;t=(\d\d),Retry-After=\1\ntoo many requests/, 'and tells the next one to wait, the same in both fields');
	like($out, qr/200 OK \Q$head\E;r=2;t=8[0-7]\nhello$/, 'others are not concerned');
}
$node->stop;
done_testing();
