# Random transactions of make chaos, over all rooms at once.
#
# A room (DcChaos/Room/NAME.pm) is a package whose room() returns a hash. All but "name" and
# "schema" may be missing:
#   name     for messages
#   schema   SQL that makes its tables, its log and its functions
#   steps    [weight, sub]: SQL of one or several statements for the middle of any
#            transaction. The sub gets "'CLIENT', NUMBER", which names the transaction.
#            What a step does it also writes into the room's log, so both commit or
#            roll back together; that is why comparing with the log is exact.
#   alone    [weight, sub]: SQL with transactions of its own
#   roles    name => { clients => N, next => sub, database => NAME }: clients that do nothing
#            but what "next" returns; it gets the client's number. Without a database in "postgres"
#   tables   what may be rewritten and reindexed meanwhile
#   alters   sub: SQL that alters what may be altered
#   allowed  a pattern of "SQLSTATE: message" that its statements may end with
#   wrong    SQL that returns a line for each difference between the tables and the log,
#            when nobody writes. The table chaos_crash has a row for each crash of the round.
#   snapshot true: "wrong" also holds in any snapshot while others write
#   ready    sub(RUN): before that; waits, for a limited time, until what takes some has been done,
#            and returns a list of differences
#   settled  SQL that runs after "wrong", when there was no difference
#   idle     SQL that returns a line for what background jobs should have done and have
#            not; asked again until there is none, for some seconds
#   finish   sub(RUN): a list of differences, after the last round
package DcChaos::Mix;

use strict;
use warnings;

use Exporter 'import';
use File::Basename qw(dirname);

our @EXPORT = qw(rooms pick weighted chance num key statements compose);

# rooms: all of them, except those that DC_CHAOS_WITHOUT names ("outbox skew")
sub rooms
{
	my @rooms;
	my %without = map { $_ => 1 } split(' ', $ENV{DC_CHAOS_WITHOUT} // '');

	foreach my $file (sort glob(dirname(__FILE__) . '/Room/*.pm'))
	{
		my ($name) = $file =~ m{(\w+)\.pm$};

		require "DcChaos/Room/$name.pm";
		my $room = "DcChaos::Room::$name"->can('room')->();

		push @rooms, $room if !$without{ $room->{name} };
	}
	return @rooms;
}

sub pick
{
	return $_[ rand @_ ];
}

# weighted([WEIGHT, THING]...): one of the things
sub weighted
{
	my @list = @_;
	my $sum = 0;

	$sum += $_->[0] foreach @list;
	my $at = rand($sum);

	foreach my $pair (@list)
	{
		return $pair->[1] if ($at -= $pair->[0]) < 0;
	}
	return $list[-1][1];
}

sub chance
{
	my ($probability) = @_;

	return rand() < $probability;
}

# num(FROM, TO): an integer
sub num
{
	my ($from, $to) = @_;

	return $from + int(rand($to - $from + 1));
}

# key(LETTER, COUNT): LETTER1 to LETTERcount, the first ones more often
sub key
{
	my ($letter, $count) = @_;

	return $letter . (1 + int($count * rand()**2));
}

# statements(CALL...): one statement for each, or one for all
sub statements
{
	my @calls = @_;

	return chance(0.7) ? join('', map { "SELECT $_;\n" } @calls) : 'SELECT ' . join(', ', @calls) . ";\n";
}

# some_steps(ROOMS, ME): one to four steps, with savepoints around some of them
sub some_steps
{
	my ($rooms, $me, $depth) = @_;
	my @all = map { @{ $_->{steps} // [] } } @$rooms;
	my $sql = '';

	foreach (1 .. 1 + int(4 * rand()**2))
	{
		if ($depth < 3 && chance(0.15))
		{
			my $name = "s$depth";
			my $end = weighted([ 5, "ROLLBACK TO $name;\n" ], [ 4, "RELEASE $name;\n" ], [ 1, '' ],
				[ 1, "ROLLBACK TO $name;\n" . weighted(@all)->($me) . "RELEASE $name;\n" ],
				# an error that only the savepoint survives
				[ 1, "SELECT 1 / 0;\nROLLBACK TO $name;\n" ]);

			$sql .= "SAVEPOINT $name;\n" . some_steps($rooms, $me, $depth + 1) . $end;
		}
		else
		{
			$sql .= weighted(@all)->($me);
		}
		$sql .= sprintf("SELECT pg_sleep(%.3f);\n", rand(0.05)) if chance(0.06);
	}
	return $sql;
}

# compose(ROOMS, CLIENT, NUMBER): a transaction of steps of any rooms. Returns its SQL, and
# whether it is durable when the client learns that it is committed.
sub compose
{
	my ($rooms, $client, $number) = @_;
	my $alone = grep { $_->{alone} } @$rooms;
	my $me = "'$client', $number";

	return (weighted(map { @{ $_->{alone} // [] } } @$rooms)->($me), 0) if $alone && chance(0.15);

	my $level = weighted([ 6, 'READ COMMITTED' ], [ 2, 'REPEATABLE READ' ], [ 2, 'SERIALIZABLE' ]);
	my $sql = "BEGIN ISOLATION LEVEL $level;\n";
	my $durable = 1;

	$sql .= 'SET LOCAL ' . pick('lock_timeout', 'statement_timeout') . ' = ' . num(1, 50) . ";\n" if chance(0.06);
	$sql .= "SET LOCAL dcounter.pending_memory = '64kB';\n" if chance(0.05);
	if (chance(0.05))
	{
		$sql .= "SET LOCAL synchronous_commit = off;\n";
		$durable = 0;
	}
	$sql .= some_steps($rooms, $me, 0) . "INSERT INTO chaos_txn VALUES ($me);\n";
	my $gid = "'$client $number'";
	my $end = weighted([ 40, "COMMIT;\n" ], [ 5, "ROLLBACK;\n" ], [ 2, "SELECT 1 / 0;\nCOMMIT;\n" ],
		[ 2, "PREPARE TRANSACTION $gid;\nCOMMIT PREPARED $gid;\n" ], [ 1, "PREPARE TRANSACTION $gid;\nROLLBACK PREPARED $gid;\n" ],
		# left to the runner, which decides about it later
		[ 0.3, "PREPARE TRANSACTION 'left $client $number';\n" ]);

	return ("$sql$end", $durable);
}

1;
