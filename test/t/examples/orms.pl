# examples/django, examples/activerecord and examples/alembic do what they say, and what they say of ORMs is so: which of their habits
# fail at the tables of dcounter, or would drop them, and that the examples' way does not. So does the code in the recipes of doc/bound-recipes.md.
use strict;
use warnings;

use DcDoc;
use DcExample;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($processes, $rounds, $stock) = (2, torture(12, 300), torture(12, 250));
my $django = with_modules('python', 'django', 'psycopg2');
my $alembic = with_modules('python', 'alembic', 'sqlalchemy', 'psycopg2');
my $ruby = with_modules('ruby', 'active_record', 'pg');
my $here = "$ENV{TESTDIR}/test/frameworks";
my $node = dc_node('orms', extension => 0);
my @shops;

push @shops, {
	name => 'django',
	likes => 'shop_like',
	tickets => 'shop_ticket',
	messages => 'shop_message',
	make => sub { [ manage('migrate', '-v', '0') ] },
	tour => sub { manage('tour') },
	load => sub { my ($database, @rest) = @_; ($django, "$here/load_django.py", example('django'), @rest) },
	says => <<'EOS' } if $django;
likes: True False True [2, 0]
taken back: [1, 0]
third buyer: None
released: 55000
sold: 1 left: 1 holds: confirmed released
views: 3
unread: {'general': (2, 2), 'random': (0, 0)}
read: {'general': (0, 2)}
EOS
push @shops, {
	name => 'activerecord',
	likes => 'likes',
	tickets => 'tickets',
	messages => 'chat_messages',
	make => sub { () },
	tour => sub { ($ruby, example('activerecord/shop.rb'), url_of($node, $_[0])) },
	load => sub { my ($database, @rest) = @_; ($ruby, "$here/load.rb", example('activerecord'), url_of($node, $database), @rest) },
	says => <<'EOS' } if $ruby;
likes: true false true [2, 0]
taken back: [1, 0]
third buyer: nil
released: PG::ObjectNotInPrerequisiteState
sold: 1 left: 1
views: 3
unread: {"general"=>[2, 2], "random"=>[0, 0]}
read: {"general"=>[0, 2]}
EOS

sub manage
{
	return ($django, example('django/manage.py'), @_);
}

tour_is($node, $_, "plain_$_->{name}", 'exact') foreach @shops;
$node->append_conf('postgresql.conf', q{shared_preload_libraries = 'dcounter'});
$node->restart;
tour_is($node, $_, "loaded_$_->{name}", 'buffered') foreach @shops;

foreach my $shop (@shops)
{
	sql($node, "loaded_$shop->{name}", qq{DELETE FROM $shop->{likes}; DELETE FROM $shop->{tickets}; SELECT dc_restock('seats', 'last night', $stock)});
}
my $sums = under_load($node, $processes, $rounds, map { [ $_, "loaded_$_->{name}" ] } @shops);
foreach my $shop (@shops)
{
	left_as_it_should($node, $shop, "loaded_$shop->{name}", $sums->{"loaded_$shop->{name}"}, $rounds, $processes * $rounds, $stock);
}

SKIP:
{
	skip 'python3-django and python3-psycopg2 are not installed', 1 if !$django;
	my $database = 'loaded_django';

	is(run_example($node, $database, manage('makemigrations', '--check', '--dry-run')), "No changes detected\n", 'Django: the models are those of the migrations');
	sql($node, $database, q{SELECT dc_create('claps')});
	my $inspected = run_example($node, $database, manage('inspectdb'));
	my $models = file_of('inspected.py', $inspected);

	is(run_example($node, $database, $django, "$here/papercuts.py", example('django'), $models), <<'EOS', 'Django: generated columns, F(), models to read');
create: 428C9
save: 428C9
read-only save: counters change by dc_incr()
read-only create: counters change by dc_incr()
read-only delete: counters are removed by dc_delete()
exact: True
dc_incr: done
F: 55P03
value: 6
EOS
	# what inspectdb lists, and that of it the tables of dcounter are known by their comments
	my @all = $inspected =~ /db_table = '(\w+)'/g;
	my @ours = split /\n/, sql($node, $database, q{
		SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND obj_description(oid, 'pg_class') LIKE 'dcounter: %'});
	my %ours = map { $_ => 1 } @ours;

	is(join(' ', sort grep { !$ours{$_} } @all), 'django_migrations shop_like shop_message shop_post shop_ticket', 'Django: without them, inspectdb has the tables of the models');
	is(join(' ', sort grep { $ours{$_} } @all), join(' ', sort @ours), 'Django: with them, it has all of them');
	is(join(' ', sort grep { /^(claps|post_likes|seats)/ } @all), 'claps claps_shard post_likes post_likes_shard seats seats_hold seats_shard', 'Django: these among them');
	sql($node, $database, q{SELECT dc_drop('claps')});
	run_example($node, $database, manage('migrate', '-v', '0', 'shop', 'zero'));
	is(sql($node, $database, q{SELECT count(*) FROM dc_tables}), '0', 'Django: a migration back drops them');
}

SKIP:
{
	skip 'ruby-activerecord and ruby-pg are not installed', 1 if !$ruby;
	my $out = run_example($node, 'loaded_activerecord', $ruby, "$here/papercuts.rb", example('activerecord'), url_of($node, 'loaded_activerecord'));

	is($out =~ s/^without: .*\n//mr, <<'EOS', 'ActiveRecord: the schema of a dump, and the query cache');
schema.rb: chat_messages likes posts tickets
from the cache: 1
called: 2
first: Hello
EOS
	like($out, qr/^without: chat_messages likes messages messages_shard post_likes post_likes_shard posts seats seats_hold seats_shard seen tickets views views_shard$/m,
		'ActiveRecord: it has them all otherwise');
}

# recipe(TITLE, LANGUAGE): the database after what a recipe of doc/bound-recipes.md does until its block in this language, and a file with
# that block
sub recipe
{
	my ($title, $language) = @_;
	my $database = "recipe_$language";

	sql($node, 'postgres', "CREATE DATABASE $database");
	sql($node, $database, 'CREATE EXTENSION dcounter');
	foreach my $block (grep { $_->{section} eq $title } DcDoc::parts("$ENV{TESTDIR}/doc/bound-recipes.md"))
	{
		return ($database, file_of("recipe.$language", $block->{text})) if $block->{mark} eq $language;
		sql($node, $database, $block->{text}) if $block->{mark} eq 'sql';
	}
	die "doc/bound-recipes.md has no $language in \"$title\"";
}

SKIP:
{
	skip 'ruby-activerecord and ruby-pg are not installed', 1 if !$ruby;
	my ($database, $file) = recipe('From Rails: counter_cache, counter_culture', 'ruby');

	is(run_example($node, $database, $ruby, "$here/bound.rb", $file, url_of($node, $database)), <<'EOS', 'doc/bound-recipes.md: the models for Rails');
columns: id title
with_counts: [[1, 2], [2, 1]]
one: 2
EOS
}

SKIP:
{
	skip 'python3-django and python3-psycopg2 are not installed', 1 if !$django;
	my ($database, $file) = recipe('From Django: F() updates, signals', 'python');

	is(run_example($node, $database, $django, "$here/bound.py", $file), "[(1, 1), (2, -1)]\nWorld\n", 'doc/bound-recipes.md: the manager for Django');
}

SKIP:
{
	skip 'python3-alembic and python3-psycopg2 are not installed', 1 if !$alembic;
	my $database = 'alembic';
	my $folder = tempdir_of_alembic(url_of($node, $database));
	my @alembic = ($alembic, '-c', 'from alembic.config import main; main()', '-c', "$folder/alembic.ini");

	sql($node, 'postgres', "CREATE DATABASE $database");
	run_example($node, $database, @alembic, 'upgrade', 'head');
	is(sql($node, $database, q{INSERT INTO likes VALUES (1, 'ann'), (1, 'ben'); SELECT dc_get('post_likes', 1)}), '2', 'Alembic: its migration makes the counter');

	# tables of every kind
	sql($node, $database, q{
		SELECT dc_stock_create('seats'), dc_ledger_create('wallet'), dc_create('wide', partitions => 2), dc_create('messages'),
			dc_create('once', op_retention => '1 hour'), dc_window_create('per_minute', '1 minute', '1 day'), dc_distinct_create('visitors');
		SELECT dc_unread_create('seen', 'messages'), dc_incr_once('once', 'k', 1, 'id')});
	is(found_by_alembic(@alembic), '', 'Alembic: nothing is to be changed');
	unlink glob("$folder/versions/*_found.py");
	replace_in("$folder/env.py", qr/, include_object=include_object/, '');
	my $found = found_by_alembic(@alembic);

	like($found, qr/\b$_\b/, "Alembic: else it would drop $_") foreach 'post_likes_shard', 'seats_hold', 'wallet_entry', 'seen', 'visitors_delta';
	run_example($node, $database, @alembic, 'downgrade', 'base');
	is(sql($node, $database, q{SELECT count(*) FROM dc_tables WHERE name = 'public.post_likes'}), '0', 'Alembic: a migration back drops the counter');

	# a copy of the example, for this database
	sub tempdir_of_alembic
	{
		my ($url) = @_;
		my $copy = PostgreSQL::Test::Utils::tempdir() . '/alembic';

		system('cp', '-R', example('alembic'), $copy) == 0 or die;
		replace_in("$copy/alembic.ini", qr{postgresql:///shop}, $url);
		return $copy;
	}

	sub replace_in
	{
		my ($file, $what, $new) = @_;
		my $text = slurp_file($file);

		$text =~ s/$what/$new/ or die "$file has no $what";
		open my $handle, '>', $file or die "$file: $!";
		print $handle $text;
		close $handle;
		return;
	}

	# which tables --autogenerate would drop or make
	sub found_by_alembic
	{
		run_example($node, $database, @_, 'revision', '--autogenerate', '--rev-id', '0002', '-m', 'found');
		my ($upgrade) = slurp_file("$folder/versions/0002_found.py") =~ /^def upgrade\(\):\n(.*?)^def /ms;
		return join ' ', sort $upgrade =~ /op\.\w+\('(\w+)'/g;
	}
}
$node->stop;
done_testing();
