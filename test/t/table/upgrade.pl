# From release 0.1.0 to this version: its library and script count in every room, then the library is replaced, then the script
# is; the catalog and all values are those of a fresh install. In between, the new library works with the old script, and says
# what to run; an old one refuses a newer script.
#
# The library of 0.1.0 is built from its commit, if the calling script has put its files into DC_RELEASES (test/lib.sh); otherwise
# today's is used instead, and the test says so.
use strict;
use warnings;

use Cwd qw(abs_path);
use DcTest;
use File::Basename;
use File::Path qw(make_path);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my %dir = map { $_ => config("--$_") } 'bindir', 'pkglibdir', 'sharedir';
my $root = PostgreSQL::Test::Utils::tempdir_short();
my $release = ($ENV{DC_RELEASES} // '') . '/0.1.0';
my $sql = abs_path('test/upgrade');
my $today = "$dir{pkglibdir}/dcounter.so";
my $library = "$root$dir{pkglibdir}/dcounter.so";
my $version = PostgreSQL::Test::Utils::slurp_file('dcounter.control') =~ /^default_version = '(.*)'/m ? $1 : die;

sub config
{
	my ($what) = @_;
	my $out = qx{$ENV{PG_CONFIG} $what};

	chomp $out;
	return $out;
}

sub run_ok
{
	my (@command) = @_;
	my ($out, $err);

	IPC::Run::run(\@command, '<', File::Spec->devnull, '>', \$out, '2>', \$err) or die "@command: $err";
	return $out;
}

# A private copy of a server's folders, with all files but the library. The server finds its folders relative to its program, so that is copied, too.
make_path(map { "$root$_" } values %dir);
run_ok('cp', '-R', "$dir{bindir}/.", "$root$dir{bindir}");
run_ok('cp', '-Rs', "$dir{pkglibdir}/.", "$root$dir{pkglibdir}");
run_ok('cp', '-Rs', "$dir{sharedir}/.", "$root$dir{sharedir}");

# use_library(FILE): in its place from now on. Another file, as those of a package are: sessions keep the one they have.
sub use_library
{
	my ($file) = @_;

	unlink $library;
	run_ok('cp', $file, $library);
	return;
}

my $old = "$today";
if (-d $release)
{
	# the library and the script only, -O0 and -g0: it is to work, not to be fast
	run_ok('make', '-s', '-j2', '-C', $release, "PG_CONFIG=$ENV{PG_CONFIG}", 'with_llvm=no', 'COPT=-O0 -g0 -w -U_FORTIFY_SOURCE', 'dcounter.so', 'sql/dcounter--0.1.0.sql');
	$old = "$release/dcounter.so";
	is(PostgreSQL::Test::Utils::slurp_file("$release/sql/dcounter--0.1.0.sql"), PostgreSQL::Test::Utils::slurp_file('sql/dcounter--0.1.0.sql'), 'the frozen script is what 0.1.0 installs');
}
else
{
	diag('the files of 0.1.0 are not here (no history): today\'s library stands for its library');
}

my $node = PostgreSQL::Test::Cluster->new('upgrade', install_path => dirname("$root$dir{bindir}"));
$node->init(extra => [ '-E', 'UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'dcounter'\nwal_level = logical\nmax_prepared_transactions = 20\n");

# psql_file(DATABASE, FILE): its output
sub psql_file
{
	my ($database, $file) = @_;

	return run_ok('psql', '-Xq', '-d', $node->connstr($database), '-f', "$sql/$file.sql");
}

# warned(FROM): how often the log says, from there on, that the script is older
sub warned
{
	my ($from) = @_;

	return scalar(() = substr(PostgreSQL::Test::Utils::slurp_file($node->logfile), $from) =~ /WARNING:  the extension dcounter in this database has version 0\.1\.0, but the library has version \Q$version\E/g);
}

# A library of 0.1.0 and its script, then the script of today, which does not know that library
use_library($old);
$node->start;
sql($node, 'postgres', 'CREATE DATABASE old; CREATE DATABASE fresh');
sql($node, 'old', "CREATE EXTENSION dcounter VERSION '0.1.0'");
psql_file('old', 'fill');
psql_file('old', 'memory');
my %expected = map { $_ => psql_file('old', $_) } 'check', 'memory_check';
cmp_ok(scalar(() = $expected{check} =~ /\n/g), '>', 100, 'there is something in every room');
if ($old ne $today)
{
	foreach (([ 'old', 'ALTER EXTENSION dcounter UPDATE', 'update' ], [ 'fresh', 'CREATE EXTENSION dcounter', 'install' ]))
	{
		my ($status, $out, $err) = $node->psql($_->[0], $_->[1]);

		like($err, qr/ERROR:  could not find function "library_0_2" in file/, "an older library: no $_->[2]");
	}
	is(sql($node, 'old', q{SELECT extversion FROM pg_extension WHERE extname = 'dcounter'}), '0.1.0', 'nothing has changed');
	is(psql_file('old', 'check'), $expected{check}, 'and no value');
}

# The library of today, and the script of 0.1.0
$node->stop;
use_library($today);
$node->start;
is(psql_file('old', 'memory_check'), $expected{memory_check}, 'a new library: what the old one has saved of memory is there');
is(psql_file('old', 'check'), $expected{check}, 'all values are there');
{
	my ($status, $out, $err) = $node->psql('old', q{SELECT dc_get('rooms.plain', 'post:2'); SELECT dc_get('rooms.compacted', '42'); SELECT count(*) FROM dc_tables});

	is(scalar(() = $err =~ /WARNING/g), 1, 'a session is warned once');
	like($err, qr/WARNING:  the extension dcounter in this database has version 0\.1\.0, but the library has version \Q$version\E\nHINT:  Run "ALTER EXTENSION dcounter UPDATE" in this database\.$/m, 'and told what to run');
	is($out =~ s/\n.*//sr, '2', 'and works');
}
my $seen = -s $node->logfile;
sql($node, 'old', q{SELECT dc_worker_stop(); SELECT dc_worker_start()});
for (1 .. 1000) { last if warned($seen) > 1; Time::HiRes::sleep(0.1); sql($node, 'old', q{SELECT dc_incr('rooms.plain', 'post:2', 0)}) if $_ == 1; }
cmp_ok(warned($seen), '>', 0, 'the log has it');

# As it is, another database has the new script from the beginning.
sql($node, 'fresh', 'CREATE EXTENSION dcounter');
is(sql($node, 'fresh', 'SELECT dcounter.library_0_2()'), $version, 'the library tells its version');
psql_file('fresh', $_) foreach 'fill', 'memory';
is(psql_file('fresh', 'check'), $expected{check}, 'a fresh install counts the same');

# The script
sql($node, 'old', 'ALTER EXTENSION dcounter UPDATE');
is(psql_file('old', 'catalog'), psql_file('fresh', 'catalog'), 'after the update the catalog is that of a fresh install');
is(psql_file('old', 'check'), $expected{check}, 'and all values are there');
is(psql_file('old', 'memory_check'), $expected{memory_check}, 'those in memory, too');
$seen = -s $node->logfile;
psql_file($_, 'more') foreach 'old', 'fresh';
is(psql_file('old', 'check'), psql_file('fresh', 'check'), 'and it goes on counting like a fresh install');
is(warned($seen), 0, 'no session is warned any more');
isnt(psql_file('old', 'check'), $expected{check}, '(which changes something)');

# A library that is older than the script, as if a newer version had been here
sql($node, 'old', q{UPDATE pg_extension SET extversion = '0.10.0' WHERE extname = 'dcounter'});
{
	my ($status, $out, $err) = $node->psql('old', "\\set VERBOSITY verbose\nSELECT dc_incr('rooms.plain', 'post:2')");

	like($err, qr/ERROR:  55000: the library of dcounter has version \Q$version\E, which is older than version 0\.10\.0 of the extension in this database/, 'an older library refuses to work');
	like($err, qr/HINT:  Install version 0\.10\.0/, 'with a hint');
}

# It is not in the way of DDL on tables that are not dcounter's, and refuses what it cannot follow.
foreach my $statement ('CREATE TABLE other (id int PRIMARY KEY, day int) PARTITION BY RANGE (id)',
	'CREATE TABLE other_1 PARTITION OF other FOR VALUES FROM (1) TO (10)',
	'CREATE TABLE other_2 (LIKE other); ALTER TABLE other ATTACH PARTITION other_2 FOR VALUES FROM (10) TO (20)',
	'ALTER TABLE other ADD COLUMN more text DEFAULT random()::text; ALTER TABLE other RENAME COLUMN day TO at; ALTER TABLE other RENAME TO others',
	'CREATE INDEX ON others (at); CREATE STATISTICS other_stats ON id, at FROM others',
	'CREATE INDEX CONCURRENTLY other_index ON other_1 (more)',
	'DROP INDEX other_index; DROP STATISTICS other_stats',
	'TRUNCATE other_1; TRUNCATE others',
	'ALTER TABLE others DETACH PARTITION other_2 CONCURRENTLY',
	'DROP TABLE other_1; CREATE TEMP TABLE other_3 (LIKE others); DROP TABLE other_3',
	'CREATE SCHEMA other_schema; ALTER TABLE others SET SCHEMA other_schema; CREATE VIEW other_schema.all_of AS TABLE other_schema.others',
	'ALTER VIEW other_schema.all_of RENAME TO everything; DROP VIEW other_schema.everything; DROP TABLE other_schema.others, other_2; DROP SCHEMA other_schema')
{
	my ($status, $out, $err) = $node->psql('old', $statement);

	is("$status $err", '0 ', "an older library lets others do $statement");
}
foreach my $statement ('DROP TABLE rooms.plain', 'DROP TABLE rooms.plain_shard', 'ALTER TABLE rooms.plain ADD COLUMN more int', 'ALTER TABLE rooms.plain RENAME TO other',
	'ALTER TABLE rooms.likes RENAME COLUMN post TO other', 'ALTER TABLE rooms.posts RENAME COLUMN id TO other', 'DROP TABLE rooms.parts_p1', 'CREATE INDEX ON rooms.plain (value)',
	'CREATE INDEX CONCURRENTLY ON rooms.plain (value)', 'CREATE RULE other AS ON INSERT TO rooms.plain DO ALSO SELECT 1', 'ALTER VIEW rooms.views RENAME TO other',
	'ALTER SCHEMA rooms RENAME TO other', 'DROP SCHEMA rooms CASCADE')
{
	my ($status, $out, $err) = $node->psql('old', $statement);

	like($err, qr/ERROR:  the library of dcounter has version \Q$version\E, which is older than/, "and not $statement");
}
# nor of scripts of other extensions
my %script = (1 => 'CREATE TABLE other (id int); ALTER TABLE other ADD COLUMN more int', '1--2' => 'ALTER TABLE rooms.plain ADD COLUMN more int');
write_file("$root$dir{sharedir}/extension/other_extension.control", "default_version = '1'\n");
write_file("$root$dir{sharedir}/extension/other_extension--$_.sql", $script{$_}) foreach keys %script;
foreach (([ 'CREATE EXTENSION other_extension', qr/^$/ ], [ q{ALTER EXTENSION other_extension UPDATE TO '2'}, qr/ERROR:  the library of dcounter has version/ ], [ 'DROP EXTENSION other_extension', qr/^$/ ]))
{
	my ($status, $out, $err) = $node->psql('old', $_->[0]);

	like($err, $_->[1], $_->[0]);
}
sql($node, 'old', qq{UPDATE pg_extension SET extversion = '$version' WHERE extname = 'dcounter'});
is(psql_file('old', 'check'), psql_file('fresh', 'check'), 'nothing was lost by that');

# Files of memory that another version has written are kept, whatever is in them
$expected{memory_check} = psql_file('old', 'memory_check');
my %file = map { $_ => $node->data_dir . "/pg_stat/dcounter.$_" } 'stat', 'limits', 'presence';
$node->stop;
my ($limits) = grep { -e } map { $node->data_dir . "/pg_stat/dcounter.$_" } 'limits', 'limit';
$file{limits} = $limits;
my %kept;
foreach my $name (sort keys %file)
{
	my $bytes = PostgreSQL::Test::Utils::slurp_file($file{$name});

	$kept{$name} = substr($bytes, 0, 4) . pack('L', 99) . substr($bytes, 8);
	write_file($file{$name}, $kept{$name});
}
# of the buffer there is no file after a clean stop, as its worker has flushed
my $buffer = $node->data_dir . '/pg_stat/dcounter.buffer';
ok(!-e $buffer, 'the worker has flushed the buffer');
write_file($buffer, $kept{buffer} = pack('LLLLL', 0x66756264, 99, 0, 0, 0));
$file{buffer} = $buffer;
$seen = -s $node->logfile;
$node->start;
my $log = substr(PostgreSQL::Test::Utils::slurp_file($node->logfile), $seen);
foreach my $name (sort keys %file)
{
	like($log, qr/LOG:  file "pg_stat\/dcounter.\w+" has format 99, but dcounter \Q$version\E reads format \d+\n.*DETAIL: .* The file is kept as "\Q$file{$name}\E\.format-99"|LOG:  file "\S+\Q@{[ basename($file{$name}) ]}\E" has format 99/, "$name: the log says so");
	is(-e "$file{$name}.format-99" ? PostgreSQL::Test::Utils::slurp_file("$file{$name}.format-99") : '', $kept{$name}, "$name: a file of another format is kept as it is");
}
is(psql_file('old', 'check'), psql_file('fresh', 'check'), 'the server works without them');

sub write_file
{
	my ($path, $bytes) = @_;

	open(my $fh, '>:raw', $path) or die "$path: $!";
	print $fh $bytes;
	close $fh or die "$path: $!";
	return;
}

# Values of a version that is not known are refused, by their first byte
foreach ([ 'dc_hll', "dense::bytea", '\x2' ], [ 'dc_cms', 'cms::bytea', '\x02' ], [ 'dc_topk', 'topk::bytea', '\x02' ])
{
	my ($type, $value) = @$_;
	my ($status, $out, $err) = $node->psql('old', "SELECT set_byte($value, 0, get_byte($value, 0) | 32 | 2)::$type FROM rooms.sketches");

	like($err, qr/ERROR:  .*version/is, "$type: an unknown version is refused");
}
sql($node, 'old', 'CREATE TABLE rooms.merged_copy (LIKE rooms.merged)');
foreach my $column ('g', 'pn', 'gs', 'os', 'lww', 'mv', 'clock')
{
	my $path = PostgreSQL::Test::Utils::tempdir() . "/$column";

	sql($node, 'old', "COPY rooms.merged ($column) TO '$path' (FORMAT binary); COPY rooms.merged_copy ($column) FROM '$path' (FORMAT binary)");
	# behind a header of 19 bytes, the number of fields, and the field's length
	my $bytes = PostgreSQL::Test::Utils::slurp_file($path);
	substr($bytes, 25, 1) = chr(ord(substr($bytes, 25, 1)) & 0xF0 | 2);
	write_file("$path.changed", $bytes);
	my ($status, $out, $err) = $node->psql('old', "COPY rooms.merged_copy ($column) FROM '$path.changed' (FORMAT binary)");

	like($err, qr/ERROR:  .*The version is unknown/s, "$column: an unknown version is refused");
}
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'no crash');
$node->stop;
done_testing();
