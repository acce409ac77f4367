# examples/psycopg and examples/node do what they say: each tour, with and without preload; and both programs at once, in one
# database, several processes of each: the final values are exact, and nothing is sold twice.
use strict;
use warnings;

use DcExample;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($processes, $rounds, $stock) = (2, torture(15, 300), torture(25, 500));
my $python = with_modules('python', 'psycopg');
my $nodejs = with_modules('node', 'pg');
my $here = "$ENV{TESTDIR}/test/frameworks";
my $node = dc_node('frameworks', extension => 0);
my %tables = (likes => 'likes', tickets => 'ticket', messages => 'message',
	make => sub { [ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', example('schema.sql') ] });
my @shops;

push @shops, {
	%tables,
	name => 'psycopg',
	tour => sub { ($python, example('psycopg/shop.py'), url_of($node, $_[0])) },
	load => sub { my ($database, @rest) = @_; ($python, "$here/load.py", example('psycopg'), url_of($node, $database), @rest) },
	says => <<'EOS' } if $python;
likes: True False True {42: 2, 43: 0}
taken back: {42: 1, 43: 0}
third buyer: None
released: 55000
sold: 1 left: 1
views: 3
unread: {'general': (2, 2), 'random': (0, 0)}
read: {'general': (0, 2)}
EOS
push @shops, {
	%tables,
	name => 'node',
	tour => sub { ($nodejs, example('node/shop.js'), url_of($node, $_[0])) },
	load => sub { my ($database, @rest) = @_; ($nodejs, "$here/load.mjs", example('node'), url_of($node, $database), @rest) },
	says => <<'EOS' } if $nodejs;
likes: true false true { '42': 2, '43': 0 }
taken back: { '42': 1, '43': 0 }
third buyer: null
released: 55000
sold: 1 left: 1
views: 3
unread: [
  { key: 'general', unread: 2, upto: 2 },
  { key: 'random', unread: 0, upto: 0 }
]
read: [ { key: 'general', unread: 0, upto: 2 } ]
EOS

SKIP:
{
	skip 'python3-psycopg is not installed', 1 if !$python;
	pass('psycopg is here');
}
SKIP:
{
	skip 'node, or the packages of examples/node/package-lock.json, are not installed', 1 if !$nodejs;
	pass('node-postgres is here');
}

tour_is($node, $_, "plain_$_->{name}", 'exact') foreach @shops;
$node->append_conf('postgresql.conf', q{shared_preload_libraries = 'dcounter'});
$node->restart;
tour_is($node, $_, "loaded_$_->{name}", 'buffered') foreach @shops;

if (@shops)
{
	my $database = "loaded_$shops[0]{name}";

	sql($node, $database, qq{TRUNCATE likes, ticket; SELECT dc_restock('seats', 'last night', $stock)});
	my $sums = under_load($node, $processes, $rounds, map { [ $_, $database ] } @shops);
	left_as_it_should($node, { %tables, name => 'all at once' }, $database, $sums->{$database}, $rounds, @shops * $processes * $rounds, $stock);
}

# A bigint is a text to node-postgres, unless configured otherwise; as a BigInt it is exact above 2^53, too.
SKIP:
{
	skip 'no node-postgres', 1 if !$nodejs;
	sql($node, 'postgres', q{CREATE EXTENSION dcounter; SELECT dc_create('large'); SELECT dc_incr('large', 'k', 9007199254740993)});
	my $script = file_of('bigint.cjs', <<'EOS');
const [modules, connectionString] = process.argv.slice(2);
const pg = require(modules);
(async () => {
  const client = new pg.Client({ connectionString });
  await client.connect();
  const ask = async (sql) => (await client.query(sql)).rows[0].v;
  const show = async (sql) => { const v = await ask(sql); console.log(typeof v, String(v)); };
  await show("SELECT dc_get('large', 'k') AS v");
  await show("SELECT dc_get('large', 'j')::int AS v");
  pg.types.setTypeParser(pg.types.builtins.INT8, BigInt);
  await show("SELECT dc_get('large', 'k') AS v");
  pg.types.setTypeParser(pg.types.builtins.INT8, Number);
  await show("SELECT dc_get('large', 'j') AS v");
  await client.end();
})();
EOS
	is(run_example($node, 'postgres', $nodejs, $script, example('node/node_modules/pg'), url_of($node, 'postgres')),
		"string 9007199254740993\nnumber 0\nbigint 9007199254740993\nnumber 0\n", 'what a bigint is to node-postgres');
}
$node->stop;
done_testing();
