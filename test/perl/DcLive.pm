# The live page of examples/live: its server, and a browser to look at it with.
package DcLive;

use strict;
use warnings;

use DcTest;
use Exporter 'import';
use File::Spec;
use HTTP::Tiny;
use IPC::Run ();
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(live_missing live_node live_server browser put_click until_true program);

my $folder = "$ENV{TESTDIR}/examples/live";

sub program
{
	my ($name) = @_;

	return (grep { -x } map { "$_/$name" } split /:/, $ENV{PATH})[0];
}

# live_missing(PROGRAM...): why the page cannot be tested here, "" if it can
sub live_missing
{
	my ($missing) = grep { !program($_) } 'node', @_;

	return "no $missing here" if $missing;
	return -e "$folder/node_modules/ws" ? '' : 'no npm packages in examples/live';
}

# live_node(NAME, LINE...): a database as examples/live/schema.sql makes it, but with unlimited
# clicks, and a presence of 15 seconds
sub live_node
{
	my ($name, @conf) = @_;
	my $node = dc_node($name, extension => 0, conf => [ q{shared_preload_libraries = 'dcounter'}, @conf ]);

	sql($node, 'postgres', slurp_file("$folder/schema.sql"));
	sql($node, 'postgres', q{
		SELECT dc_limit_alter('clicks', rate => 100000, burst => 100000);
		SELECT dc_presence_alter('viewers', ttl => '15 s');
	});
	return $node;
}

# live_server(NODE, name => value...): the server of the page, with these in its environment
sub live_server
{
	my ($node, %environment) = @_;
	my $self = bless { node => $node, port => PostgreSQL::Test::Cluster::get_free_port(), environment => \%environment }, 'DcLive::Server';

	$self->{url} = "http://127.0.0.1:$self->{port}/";
	$self->start;
	return $self;
}

# until_true(CODE): calls it until it says so; whether it has
sub until_true
{
	my ($code) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;

	until ($code->())
	{
		return 0 if time > $end;
		sleep 0.05;
	}
	return 1;
}

# put_click(URL, KEY, ACTION): the answer of HTTP::Tiny
sub put_click
{
	my ($url, $key, $action) = @_;

	return HTTP::Tiny->new->put($url, {
		headers => { 'Content-Type' => 'application/json', defined $key ? ('Idempotency-Key' => $key) : () },
		content => encode_json({ action => $action // 'increment' }) });
}

sub browser
{
	return DcLive::Browser->new;
}

# whatever a test that dies leaves behind
my @running;

END
{
	local $?;
	$_->kill_kill foreach grep { $_->pumpable } @running;
}

package DcLive::Server;

sub start
{
	my ($self) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/live' . ++$self->{starts};

	local %ENV = (%ENV, PGHOST => $self->{node}->host, PGPORT => $self->{node}->port, PGUSER => 'web', PGDATABASE => 'postgres',
		HOST => '127.0.0.1', PORT => $self->{port}, BEAT => 1, %{ $self->{environment} });
	$self->{run} = IPC::Run::start([ 'node', "$folder/server.mjs" ], '<', File::Spec->devnull, '>', "$file.out", '2>', "$file.err");
	push @running, $self->{run};
	DcLive::until_true(sub {
		$self->{run}->pump_nb;
		return -s "$file.out" || !$self->{run}->pumpable;
	});
	die PostgreSQL::Test::Utils::slurp_file("$file.err") if !-s "$file.out";
	return;
}

# stop(SIGNAL): ends it
sub stop
{
	my ($self, $signal) = @_;

	$self->{run}->signal($signal // 'TERM');
	IPC::Run::finish($self->{run});
	return;
}

package DcLive::Browser;

use JSON::PP;

sub new
{
	my ($class) = @_;
	my $self = bless { in => '', out => '', err => '' }, $class;
	my $home = PostgreSQL::Test::Utils::tempdir();

	$self->{timer} = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);
	local %ENV = (%ENV, HOME => $home, XDG_RUNTIME_DIR => $home, TZ => 'UTC');
	$self->{run} = IPC::Run::start([ 'node', "$ENV{TESTDIR}/test/live/browser.mjs", DcLive::program('chromium'), PostgreSQL::Test::Utils::tempdir() ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err}, $self->{timer});
	push @running, $self->{run};
	$self->answer;
	return $self;
}

sub answer
{
	my ($self) = @_;

	$self->{timer}->start($PostgreSQL::Test::Utils::timeout_default);
	until ($self->{out} =~ /\n/)
	{
		die "the browser has ended: $self->{err}" if !$self->{run}->pumpable;
		$self->{run}->pump;
	}
	$self->{out} =~ s/^(.*)\n//;
	my $answer = decode_json($1);
	die "the browser: $answer->{error}" if defined $answer->{error};
	return $answer->{value};
}

# do(WHAT, name => value...): as test/live/browser.mjs says
sub do
{
	my ($self, $what, %with) = @_;

	$self->{in} .= encode_json({ do => $what, %with }) . "\n";
	return $self->answer;
}

# open(URL, CONTEXT): a tab
sub open
{
	my ($self, $url, $context) = @_;

	return bless { browser => $self, id => $self->do('open', url => $url, context => $context // 'one') }, 'DcLive::Tab';
}

sub quit
{
	my ($self) = @_;

	$self->{run}->signal('TERM'); # it takes the browser with it
	IPC::Run::finish($self->{run});
	return;
}

package DcLive::Tab;

sub do
{
	my ($self, $what, %with) = @_;

	return $self->{browser}->do($what, tab => $self->{id}, %with);
}

sub js
{
	my ($self, $js) = @_;

	return $self->do('eval', js => $js);
}

sub text
{
	my ($self, $id) = @_;

	return $self->js("document.getElementById('$id').textContent");
}

# shows(ID, TEXT): waits for it; the text that is there in the end
sub shows
{
	my ($self, $id, $text) = @_;
	my $there;

	DcLive::until_true(sub { return ($there = $self->text($id)) eq $text });
	return $there;
}

sub click
{
	my ($self, $id) = @_;

	return $self->do('click', selector => "#$id");
}

1;
