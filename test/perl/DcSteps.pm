# Sessions that stay open, by name, and steps that these run.
package DcSteps;

use strict;
use warnings;

use DcBuffer;
use DcTest;
use Exporter 'import';
use Test::More;

our @EXPORT = qw(play query state waits end_sessions);

# By the name of the server and theirs
my (%session, %pid);

# session(NODE, NAME): it is started when it is needed first
sub session
{
	my ($node, $name) = @_;

	my $id = $node->name . " $name";

	if (!exists $session{$id})
	{
		$session{$id} = dc_session($node, 'postgres');
		$pid{$id} = $session{$id}->run('SELECT pg_backend_pid()');
	}
	return $session{$id};
}

# play(NODE, STEPS, ORDER): runs steps "session:step" one after the other, and returns what
# they said, without empty answers. "session:step&" does not wait, "session:" does.
sub play
{
	my ($node, $steps, $order) = @_;
	my @out;

	foreach (split ' ', $order)
	{
		my ($name, $step, $leave) = /^(\w+):(\w*)(&?)$/ or die "step $_";
		my $session = session($node, $name);

		$session->send($steps->{$step} // die "no step $step") if $step;
		push @out, grep { $_ ne '' } split /\n/, $session->wait if !$leave;
	}
	return join(' ', @out);
}

# query(NODE, SQL): the answer in a session that stays open, which is quicker than a new one
sub query
{
	my ($node, $sql) = @_;
	my $out = session($node, 'query')->run($sql);

	die "$sql: $out" if $out =~ /^ERROR/;
	return $out;
}

# state(NODE, COUNTER, KEY, "VALUE TABLES", NAME): state_is() in that session
sub state
{
	my ($node, $counter, $key, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(query($node, state_query($counter, $key)), $expected, $name);
}

# waits(NODE, SESSION): until it waits for a lock
sub waits
{
	my ($node, $name) = @_;

	session($node, $name);
	die "$name does not wait" if wait_for($node, 'postgres', 'SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND pid = ' . $pid{ $node->name . " $name" }, 't') ne 't';
	return;
}

# end_sessions(): of all servers
sub end_sessions
{
	$_->quit foreach values %session;
	%session = ();
	return;
}

1;
