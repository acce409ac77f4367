# doc/crdt*.md do what they say: the example of a shop (crdt-shop.md), with four servers, block by block, each after all
# that was written before has arrived where it can; and the other blocks, in one database. Where a
# statement has its result in a comment after it, that is the result. In the end all tables are equal.
# The sizes that the page states are those of today.
use strict;
use warnings;

use DcDoc;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $doc = "$ENV{TESTDIR}/doc";
my @blocks = grep { $_->{mark} eq 'sql' } blocks("$doc/crdt-shop.md");
my ($conf) = slurp_file("$doc/crdt-shop.md") =~ /^```text\n(wal_level = .*?)^```$/ms;
my @names = ('eu', 'us', 'ap', 'sa');
my %nodes = map { $_ => dc_node($_, extension => 0, init => { allows_streaming => 'logical' }, conf => [ $conf ]) } @names;
my @linked = @names[0 .. 2];
my $compared = 0;

# run_block(NODE, DATABASE, BLOCK): tests
sub run_block
{
	my ($node, $database, $block) = @_;
	my $name = "line $block->{line}, " . $node->name;
	my $sql = "\\pset null NULL\n" . compared($block->{text});

	$sql =~ s/host=(\w+)\.example\.com/'host=' . $nodes{$1}->host . ' port=' . $nodes{$1}->port/ge;
	my ($status, $out, $err) = $node->psql($database, $sql);
	is($status, 0, "$name runs") or diag($err);
	foreach my $result (results($out))
	{
		is($result->[1], $result->[0], "$name: as it says");
		$compared++;
	}
	return;
}

# settle(): waits until everything that can arrive has arrived; merged rows are forwarded, so it
# waits twice
sub settle
{
	my %links; # by sender

	foreach my $name (@names)
	{
		foreach my $link (split /\n/, sql($nodes{$name}, 'shop', 'SELECT subname FROM pg_subscription WHERE subenabled'))
		{
			push @{ $links{ $link =~ s/.*_from_//r } }, $link;
		}
		wait_for($nodes{$name}, 'shop', "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'", 0) eq '0' or die "$name: a copy does not end";
	}
	foreach my $name ((sort keys %links) x 2)
	{
		my $lsn = sql($nodes{$name}, 'shop', 'SELECT pg_current_wal_lsn()');
		my $in = join ', ', map { "'$_'" } @{ $links{$name} };
		my $n = @{ $links{$name} };

		wait_for($nodes{$name}, 'shop', "SELECT count(*) FROM pg_replication_slots WHERE slot_name IN ($in) AND active AND confirmed_flush_lsn >= '$lsn'", $n) eq $n or
		  die "$name: not all is sent";
	}
	return;
}

# contents(NODE): of the tables
sub contents
{
	my ($node) = @_;

	return sql($node, 'shop', join ' UNION ALL ', map { "SELECT '$_', md5(string_agg(t::text, ',' ORDER BY t::text)) FROM $_ AS t" } 'product', 'cart', 'profile');
}

##
## The example

sql($nodes{$_}, 'postgres', 'CREATE DATABASE shop TEMPLATE template0') foreach @names;
foreach my $block (grep { $_->{where} } @blocks)
{
	my $where = $block->{where};

	settle() if $block->{text} =~ /^(INSERT|UPDATE|SELECT)/m;
	run_block($nodes{$_}, 'shop', $block) foreach $where eq 'all' ? @linked : $where;
	next if $where ne 'sa' || $block->{text} !~ /SET dcounter.node/;
	# "then the tables, publication and role"
	run_block($nodes{sa}, 'shop', $_) foreach grep { $_->{where} && $_->{section} eq 'Tables' } @blocks;
	push @linked, 'sa';
}
settle();
cmp_ok($compared, '>=', 25, 'results were compared');
is(contents($nodes{$_}), contents($nodes{eu}), "$_ has what eu has") foreach 'us', 'ap', 'sa';
foreach my $name (@names)
{
	my @errors = grep { /ERROR: / && !/could not|terminating connection|canceling|active for PID/ } split /\n/, slurp_file($nodes{$name}->logfile);

	is(join("\n", @errors), '', "no errors on $name");
}

# It goes on after an orderly restart
$nodes{us}->restart;
sql($nodes{ap}, 'shop', q{UPDATE cart SET items = dc_add(items, 'cup') WHERE customer = 'bob'});
settle();
is(sql($nodes{$_}, 'shop', q{SELECT dc_contains(items, 'cup') FROM cart WHERE customer = 'bob'}), 't', "$_ has it") foreach @names;

##
## Traps

# A row that is deleted in one database alone stays in the others, and is missed there: a change does not find it
sql($nodes{eu}, 'shop', q{DELETE FROM product WHERE id = 'mug'});
settle();
sql($nodes{us}, 'shop', q{UPDATE product SET views = dc_add(views) WHERE id = 'mug'});
settle();
is(sql($nodes{$_}, 'shop', q{SELECT count(*) FROM product WHERE id = 'mug'}), $_ eq 'eu' ? '0' : '1', "a row deleted in eu, on $_") foreach @names;
# A link that is recreated brings it back, and eu sends it on to nobody who would not know it
sql($nodes{eu}, 'shop', 'DROP SUBSCRIPTION eu_from_us');
run_block($nodes{eu}, 'shop', { %{ (grep { $_->{text} =~ /eu_from_us CONNECTION/ } @blocks)[0] }, text => "CREATE SUBSCRIPTION eu_from_us CONNECTION 'host=us.example.com dbname=shop user=replicator' PUBLICATION shop" });
settle();
is(contents($nodes{$_}), contents($nodes{us}), "$_ has what us has") foreach @names;

# The key, and what a user writes of an old state
fails_with($nodes{eu}, 'shop', q{UPDATE product SET id = 'cup' WHERE id = 'mug'}, '0A000', 'a key cannot be changed');
sql($nodes{eu}, 'shop', q{UPDATE product SET views = dc_pncounter() WHERE id = 'tea'; UPDATE cart SET items = dc_orset()});
is(sql($nodes{eu}, 'shop', q{SELECT dc_value(views) FROM product WHERE id = 'tea'}), '28', 'an old state that is written back undoes nothing');

# Without a name nobody writes what needs one; others do
fails_with($nodes{eu}, 'shop', q{SET dcounter.node = ''; UPDATE profile SET name = 'x'}, '55000', 'no stamp without a name');
sql($nodes{eu}, 'shop', q{SET dcounter.node = ''; UPDATE product SET views = dc_add(views, 1, 'eu') WHERE id = 'mug'});

# Who may set it: superusers, and roles with the privilege; also where the library is not loaded
sql($nodes{eu}, 'postgres', 'CREATE ROLE somebody LOGIN; CREATE DATABASE his OWNER somebody TEMPLATE template0');
foreach my $what ('SET', 'ALTER DATABASE his SET')
{
	my $load = $what eq 'SET' ? 'CREATE EXTENSION IF NOT EXISTS dcounter;' : '';

	sql($nodes{eu}, 'his', $load) if $load;
	fails_with($nodes{eu}, 'his', ($load ? 'SELECT dc_gset(); ' : '') . "SET SESSION AUTHORIZATION somebody; $what dcounter.node = 'x'", '42501', "$what is not for everybody");
}
sql($nodes{eu}, 'his', q{GRANT SET ON PARAMETER dcounter.node TO somebody; SET SESSION AUTHORIZATION somebody; ALTER DATABASE his SET dcounter.node = 'x'});
is(sql($nodes{eu}, 'his', 'SELECT dc_node()'), 'x', 'who may is heard');

##
## The other blocks

sql($nodes{eu}, 'postgres', 'CREATE DATABASE page TEMPLATE template0');
$compared = 0;
foreach my $page ('crdt', 'crdt-types', 'crdt-rows', 'crdt-formats')
{
	my $database = $page eq 'crdt-types' ? 'page' : $page;

	sql($nodes{eu}, 'postgres', qq{CREATE DATABASE "$database" TEMPLATE template0}) if $database ne 'page';
	sql($nodes{eu}, $database, 'CREATE EXTENSION IF NOT EXISTS dcounter');
	run_block($nodes{eu}, $database, $_) foreach grep { $_->{mark} eq 'sql' } blocks("$doc/$page.md");
}
cmp_ok($compared, '>=', 34, 'results of the other blocks were compared');

# Sizes
my %sizes = (
	'`dc_gcounter`, `dc_vclock` of this many nodes' => q{dc_merge_agg(dc_add(dc_gcounter(), 1000000 + i, 'region-' || lpad(i::text, 3, '0')))},
	'`dc_pncounter`, with decrements' => q{dc_merge_agg(dc_add(dc_add(dc_pncounter(), 1000000 + i, 'region-' || lpad(i::text, 3, '0')), -1000, 'region-' || lpad(i::text, 3, '0')))},
	'`dc_gset` of this many elements' => q{gset(array_agg('item ' || lpad(i::text, 6, '0')))},
	'`dc_orset`' => q{orset(array_agg('item ' || lpad(i::text, 6, '0')))},
	'`dc_orset` whose elements were all removed' => q{dc_reset(orset(array_agg('item ' || lpad(i::text, 6, '0'))))},
);
sql($nodes{eu}, 'page', q{
	CREATE FUNCTION orset(elements text[]) RETURNS dc_orset LANGUAGE plpgsql AS $$
	DECLARE
		s dc_orset := dc_orset();
	BEGIN
		FOR i IN 1 .. cardinality(elements) LOOP
			s := dc_add(s, elements[i], 'region-00' || i % 3);
		END LOOP;
		RETURN s;
	END $$;
	CREATE FUNCTION gset(elements text[]) RETURNS dc_gset LANGUAGE sql AS $$SELECT to_jsonb(elements)::text::dc_gset$$});
foreach my $line (sort keys %sizes)
{
	my ($stated) = slurp_file("$doc/crdt-types.md") =~ /^\| \Q$line\E \| (.*) \|$/m;
	my @counts = (1, 10, 100, 1000, 10000);
	my @stated = map { s/,//gr } grep { $_ ne '' } split / *\| */, $stated // '';

	cmp_ok(scalar(@stated), '>=', 4, "$line: sizes are stated");
	is(sql($nodes{eu}, 'page', "SELECT octet_length(dcounter.crdt_send($sizes{$line})) FROM generate_series(1, $counts[$_]) AS i"), $stated[$_], "$line: $counts[$_]")
	  foreach 0 .. $#stated;
}
is(sql($nodes{eu}, 'page', q{SET dcounter.node = 'eu'; SELECT octet_length(dcounter.crdt_send(dc_hlc_now()))}), '12', 'a stamp');

$_->stop foreach values %nodes;
done_testing();
