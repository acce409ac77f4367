# The clients in a round of make owners. Each is a hash:
#   user    the role that it connects as
#   database   if that is another one than "postgres"
#   next    sub: SQL
#   strict  whether an error that is not a matter of concurrency is a finding
#   limit   seconds that an answer may take
package DcHostile::Clients;

use strict;
use warnings;

use DcChaos::Mix;
use DcHostile::Rooms;
use DcTest;
use Exporter 'import';

our @EXPORT = qw(clients);

# What owners' code may not leave in the sessions of other roles that have used their tables
my $leaks = q{SELECT 'leak: cursor ' || name FROM pg_cursors UNION ALL SELECT 'leak: temporary tables' WHERE pg_my_temp_schema() <> 0
	UNION ALL SELECT 'leak: listens ' || c FROM pg_listening_channels() AS c UNION ALL SELECT 'leak: statement ' || name FROM pg_prepared_statements
	UNION ALL SELECT format('leak: %s is %s', name, setting) FROM pg_settings WHERE source = 'session' AND name NOT IN ('lock_timeout', 'statement_timeout', 'client_min_messages', 'application_name', 'seed')
	UNION ALL SELECT format('leak: acts as %s', current_user) WHERE current_user <> session_user;
};

# transaction(CALL...): some statements in one transaction
sub transaction
{
	my @calls = @_;
	my $sql = 'BEGIN ISOLATION LEVEL ' . weighted([ 6, 'READ COMMITTED' ], [ 2, 'REPEATABLE READ' ], [ 3, 'SERIALIZABLE' ]) . ";\n";

	$sql .= "SAVEPOINT s;\n$_" . weighted([ 5, '' ], [ 2, "RELEASE s;\n" ], [ 3, "ROLLBACK TO s;\n" ]) foreach @calls;
	return $sql . weighted([ 8, "COMMIT;\n" ], [ 1, "ROLLBACK;\n" ]);
}

# some_calls(CALLS): a statement, or a transaction of up to four
sub some_calls
{
	my @list = @_;
	my @calls = map { weighted(@list)->() } 1 .. 1 + int(4 * rand()**2);

	return @calls > 1 || chance(0.3) ? transaction(@calls) : $calls[0];
}

# owner: mostly a campaign (DcHostile::Code); and what cannot be done there
sub owner
{
	my @calls = calls_of('m');
	my $room = pick(focus());
	my @parts = ('', '', '_shard', '_shard', $room eq 'stk' ? ('_hold', '_hold') : $room eq 'bud' ? ('_reservation', '_reservation', '_reservation', '_pool', '_pool_shard') : $room eq 'rep' ? ('_region', '_region', '_region', '_set') : $room eq 'rst' ? ('_grant', '_grant', '_want', '_want') : $room eq 'bnd' ? ('_src', '_src', '_src', '_prt', '_prt_1', '_uniq', '_uniq_ref', '_uniq_ref', '_prts') : $room =~ /led|mon/ ? ('_pending', '_account', '_entry', '_limit', '_limit_shard', '_event') : $room eq 'win' ? map { "_w$_" } (0 .. 15), '0_shard', '4_shard', '9_shard' : $room eq 'dis' ? ('_delta', '_delta', '_day', '_day_delta') : '_event');
	my $near = sub { "to_regclass('m.$room" . pick(@parts) . "')" };
	my $do = sub { my ($which) = @_; "SELECT m.some_$which \\gexec\n" };
	my $pause = sprintf("SELECT pg_sleep(%.3f);\n", rand(0.1));

	return weighted(
		[ 6, "CALL m.campaign('$room', '{" . join(',', map { "\"$_\"" } @parts) . "}');\n" ],
		[ 1, $do->('ddl(' . $near->() . ", 'alone')") ], [ 1, $do->('ddl(' . $near->() . ", 'places')") ], [ 1, some_calls(@calls) ],
		[ 1, "BEGIN;\n" . weighted(@calls)->() . $do->('ddl(' . $near->() . ', NULL)') . pick($do->('dml(' . $near->() . ')'), weighted(@calls)->()) . pick('COMMIT', 'COMMIT', 'ROLLBACK') . ";\n" ]) . $pause;
}

sub admin
{
	my @calls = calls_of('m');

	return weighted(
		[ 2, "CALL dc_maintain();\n" ], [ 2, "SELECT dc_compact();\n" ], [ 1, "SELECT dc_flush();\n" ], [ 1, "SELECT * FROM dc_stat_counters;\n" ], [ 1, "SELECT * FROM dc_stat_shards;\n" ], [ 1, "SELECT * FROM dc_stat_hot_keys;\n" ],
		[ 1, "SELECT * FROM dc_stat_outbox;\n" ], [ 6, some_calls(@calls) ]) . sprintf("SELECT pg_sleep(%.3f);\n", rand(0.3));
}

# remote: what users do in the other region. New keys are rows that are inserted.
sub remote
{
	my $any = sub { chance(0.3) ? "'n" . num(1, 1_000_000) . "'" : "'k" . num(1, 6) . "'" };

	return weighted(
		[ 4, sprintf("SELECT dc_incr('m.rep', %s, %d);\n", $any->(), num(-5, 20)) ], [ 2, sprintf("SELECT dc_restock('m.rst', %s, %d);\n", $any->(), num(1, 50)) ], [ 1, sprintf("SELECT dc_want('m.rst', %s, %d);\n", $any->(), num(1, 50)) ],
		[ 4, sprintf("SELECT a.count(%s, %d);\n", $any->(), num(-5, 20)) ]) . sprintf("SELECT pg_sleep(%.3f);\n", rand(0.02));
}

# clients: name => hash
sub clients
{
	my @mallorys = calls_of('m');
	my @alices = logged_calls();
	my $slow = sanitized() ? 4 : 1;
	my %without = map { $_ => 1 } split(/;/, $ENV{OWNERS_WITHOUT} // '');

	return (
		owner => { user => 'mallory', next => \&owner },
		user => {
			user => 'carol',
			next => sub {
				my $sql = chance(0.3) ? sprintf("CALL c.calls('%s', 20);\n", pick(focus())) : some_calls(@mallorys, @alices, @mallorys);

				$sql = forgeries() if !$without{forgeries} && chance(0.06);
				$sql .= sprintf("FETCH 1 FROM \"%s\";\n", pick('left', 'left2', 'left3', 'left4', 'left5')) if chance(0.2);
				return $sql . $leaks;
			} },
		alice => {
			user => 'alice',
			strict => 1,
			next => sub {
				return weighted([ 8, some_calls(@alices) ], [ 1, pick("CALL dc_maintain();\n", "SELECT dc_compact();\n", "SELECT dc_flush();\n", "SELECT * FROM dc_stat_counters;\n") ]) . sprintf("SELECT pg_sleep(%.3f);\n", rand(0.05));
			} },
		admin => { user => 'postgres', next => \&admin },
		# another region, whose rows come to its tables; and who makes the link know of new ones
		remote => { user => 'postgres', database => 'there', next => \&remote },
		linker => { user => 'postgres', next => sub { "ALTER SUBSCRIPTION mallorys REFRESH PUBLICATION WITH (copy_data = false);\nSELECT pg_sleep(0.05);\n" } },
		# its view of the server must not depend on what is on anybody's tables
		monitor => {
			user => 'mona',
			strict => 1,
			limit => 10 * $slow,
			next => sub { sprintf "SELECT %s FROM %s;\nSELECT pg_sleep(0.2);\n", 'count(*)', pick('dc_stat_counters', 'dc_stat_shards', 'dc_stat_worker', 'dc_stat_buffer', 'dc_stat_hot_keys', 'dc_stat_outbox', 'dc_stat_limits', 'dc_stat_presence') } });
}

1;
