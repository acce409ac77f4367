# Faults that are clients of make chaos: they disturb other clients by means of SQL, repeatedly
# while a round lasts. One of them compares rooms with their logs during the round.
package DcChaos::Gremlins;

use strict;
use warnings;

use DcChaos::Mix;
use Exporter 'import';

our @EXPORT = qw(gremlins);

# The possible victims: other clients, not the runner
my $others = q{pid <> pg_backend_pid() AND backend_type = 'client backend' AND application_name <> 'runner'};

# gremlins(ROOMS): name => { next => sub }, where the sub returns SQL
sub gremlins
{
	my (@rooms) = @_;
	my @tables = map { @{ $_->{tables} // [] } } @rooms;
	my @alters = map { $_->{alters} // () } @rooms;
	my @wrong = map { $_->{wrong} } grep { $_->{snapshot} } @rooms;

	return (
		check => {
			next => sub {
				return sprintf("BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT chaos_check(\$q\$%s\$q\$);\nCOMMIT;\nSELECT pg_sleep(%.3f);\n", pick(@wrong), 0.2 + rand(0.3));
			} },
		signals => {
			next => sub {
				my $how = weighted([ 5, 'pg_cancel_backend' ], [ 2, 'pg_terminate_backend' ]);

				return sprintf("SELECT %s(pid) FROM pg_stat_activity WHERE $others AND state <> 'idle' ORDER BY random() LIMIT 1;\nSELECT pg_sleep(%.3f);\n", $how, rand(0.2));
			} },
		rewrites => {
			next => sub {
				my $table = pick(@tables);
				my $sql = weighted(
					[ 4, "VACUUM FULL $table" ], [ 4, "REINDEX TABLE CONCURRENTLY $table" ], [ 2, "VACUUM (FREEZE, INDEX_CLEANUP ON) $table" ], [ 1, "ANALYZE $table" ],
					[ 1, "SELECT format('CLUSTER $table USING %I', relname) FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indrelid = '$table'::regclass AND indisvalid AND indpred IS NULL ORDER BY random() LIMIT 1 \\gexec" ],
					[ 1, "ALTER TABLE $table SET (fillfactor = " . num(30, 100) . ')' ],
					[ 1, "ALTER TABLE $table ALTER " . ($table eq 'bd_like' ? 'id' : 'key') . ' SET STATISTICS ' . num(1, 100) ], [ 1, "ALTER TABLE $table SET (autovacuum_enabled = " . pick('on', 'off') . ')' ],
					[ 1, "BEGIN; LOCK $table IN " . pick('SHARE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE') . ' MODE; SELECT pg_sleep(0.2); ' . pick('COMMIT', 'ROLLBACK') ]);

				$sql .= ';' if $sql !~ /\\gexec$/;
				return sprintf("SET lock_timeout = '500ms';\n%s\nSELECT pg_sleep(%.3f);\n", $sql, rand(0.1));
			} },
		alters => {
			next => sub {
				return sprintf("SET lock_timeout = '500ms';\n%s;\nSELECT pg_sleep(%.3f);\n", (pick(@alters) // sub { 'SELECT 1' })->(), rand(0.2));
			} },
		# an old snapshot, a transaction that is idle with it and with an id, and a cursor
		snapshot => {
			next => sub {
				my $table = pick(@tables);

				return sprintf(
					"BEGIN ISOLATION LEVEL %s;\nSELECT count(*) FROM %s;\n%sSELECT pg_sleep(%.1f);\nSELECT count(*) FROM %s;\n%s;\n",
					pick('REPEATABLE READ', 'SERIALIZABLE', 'SERIALIZABLE, READ ONLY'), $table, chance(0.5) ? "DECLARE c CURSOR FOR SELECT * FROM $table;\nFETCH c;\n" : '',
					1 + rand(3), $table, pick('COMMIT', 'ROLLBACK'));
			} },
		maintenance => {
			next => sub {
				return sprintf("%s;\nSELECT pg_sleep(%.3f);\n",
					weighted([ 3, 'CALL dc_maintain()' ], [ 3, 'SELECT dc_compact()' ], [ 2, 'SELECT dc_flush()' ], [ 2, 'CHECKPOINT' ]), rand(0.2));
			} });
}

1;
