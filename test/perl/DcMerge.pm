# Shared by the tests of rows that merge: servers that replicate some tables to each other by
# built-in logical replication, writers on all of them, and the conditions that must hold when all
# is idle.
package DcMerge;

use strict;
use warnings;

use DcLinks;
use DcTest;
use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(merge_node merge_write merge_is_sound merge_copies_are_sound);

# Several sessions count on few rows, so that they conflict. Each transaction changes the rows of
# the tables in a fixed order, and so do replicated ones, so they never deadlock. "counted" is not
# replicated: it shows what has been committed here.
my $writer = q{
\set id random(1, 40)
\set amount random(-3, 7)
\set kind random(1, 6)
BEGIN;
INSERT INTO likes (id, n) VALUES (:id, dc_add(dc_pncounter(), :amount)) ON CONFLICT (id) DO UPDATE SET n = dc_add(likes.n, :amount);
INSERT INTO counted VALUES (:id, :amount);
INSERT INTO carts (id, items, name, doc) VALUES (:id, dc_add(dc_orset(), 'first'), dc_node(), repeat('x', 3000)) ON CONFLICT (id) DO UPDATE SET
	items = CASE :kind WHEN 1 THEN dc_add(carts.items, 'item ' || :amount) WHEN 2 THEN dc_remove(carts.items, 'item ' || :amount) ELSE carts.items END,
	name = CASE :kind WHEN 3 THEN dc_node() || ' ' || :amount ELSE carts.name END,
	size = CASE :kind WHEN 4 THEN :amount ELSE carts.size END,
	doc = CASE :kind WHEN 5 THEN repeat(dc_node() || :amount, 1500) ELSE carts.doc END,
	profile = CASE :kind WHEN 6 THEN dc_set(carts.profile, to_jsonb(:amount)) ELSE carts.profile END;
COMMIT;
};

# Messages about lost connections and cut links
my $lost = qr/could not (connect to the publisher|receive data from WAL stream|send data to WAL stream|send end-of-streaming message)|terminating (connection|background worker)|canceling statement|replication (slot "\w+" is|origin with ID \d+ is already) active for PID/;

# merge_node(NAME): a server with the tables and their publication. Nothing but writing writes WAL.
sub merge_node
{
	my ($name) = @_;
	my $node = dc_node($name, init => { allows_streaming => 'logical' }, conf => [
			"dcounter.node = '$name'", "log_line_prefix = '%m [%p] %b '", link_conf() ]);

	sql($node, 'postgres', q{
		CREATE TABLE likes (id int PRIMARY KEY, n dc_pncounter) WITH (fillfactor = 50);
		CREATE TRIGGER merge BEFORE INSERT OR UPDATE ON likes FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row();
		CREATE TABLE carts (id int PRIMARY KEY, items dc_orset, profile dc_lww DEFAULT dc_lww(), name text, size int, doc text, stamp dc_hlc) WITH (fillfactor = 50);
		ALTER TABLE carts ALTER doc SET STORAGE EXTERNAL;
		CREATE TRIGGER merge BEFORE INSERT OR UPDATE ON carts FOR EACH ROW EXECUTE FUNCTION dcounter.merge_row('stamp=stamp');
		ALTER TABLE likes ENABLE ALWAYS TRIGGER merge;
		ALTER TABLE carts ENABLE ALWAYS TRIGGER merge;
		CREATE TABLE counted (id int, amount bigint);
		CREATE PUBLICATION p FOR TABLE likes, carts WITH (publish = 'insert, update')});
	return $node;
}

# merge_write(NODE, SECONDS): starts to write
sub merge_write
{
	my ($node, $seconds) = @_;

	return link_write($node, $seconds, $writer);
}

# contents(NODE): all that is in the tables
sub contents
{
	my ($node) = @_;

	return answer($node, 'postgres', q{
		SET timezone = 'UTC';
		SELECT 'likes', l::text FROM likes AS l UNION ALL SELECT 'carts', c::text FROM carts AS c ORDER BY 1, 2});
}

# merge_is_sound(NAME, NODES): in the end the tables are equal, and say what users have counted;
# there was no error since the last time; and when nobody writes, WAL stops
sub merge_is_sound
{
	my ($name, @nodes) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is_sound($name, undef, @nodes);
}

# merge_copies_are_sound(NAME, NODES): the same, where tables were copied while others wrote. A copy is
# one transaction of all rows, in no order of theirs, and is forwarded as one transaction. So a copy
# and what a link applies can wait for each other: the server ends one of them, and it begins again.
# Users are never part of that.
sub merge_copies_are_sound
{
	my ($name, @nodes) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is_sound($name, qr/^\S+ \S+ UTC \[\d+\] logical replication worker ERROR:  deadlock detected/, @nodes);
}

sub is_sound
{
	my ($name, $allowed, @nodes) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my (@contents, %counted, %value);

	do
	{
		sleep(0.2);
		@contents = map { contents($_) } @nodes;
	} until (!grep { $_ ne $contents[0] } @contents) || time > $end;
	is($contents[$_], $contents[0], "$name: " . $nodes[$_]->name . ' has the rows that ' . $nodes[0]->name . ' has') foreach 1 .. $#nodes;
	isnt($contents[0], '', "$name: there are some");

	foreach my $node (@nodes)
	{
		$counted{ (split /\|/)[0] } += (split /\|/)[1] foreach split /\n/, sql($node, 'postgres', 'SELECT id, sum(amount) FROM counted GROUP BY id');
	}
	%value = map { split /\|/ } split /\n/, sql($nodes[0], 'postgres', 'SELECT id, dc_value(n) FROM likes');
	is_deeply(\%value, \%counted, "$name: the sums are what users have counted");

	foreach my $node (@nodes)
	{
		is(errors_of($node, $allowed), '', "$name: no errors on " . $node->name);
	}
	links_are_idle($name, @nodes);
	return;
}

# errors_of(NODE, ALLOWED): errors in its log since the last time, with the details, except for
# those that are allowed
my %log_end;

sub errors_of
{
	my ($node, $allowed) = @_;
	my $log = slurp_file($node->logfile, $log_end{ $node->name } // 0);
	my @errors = grep { /^[^\n]*ERROR: / && !/^[^\n]*$lost/ && !(defined $allowed && /$allowed/) } split /^(?=\S+ \S+ UTC \[\d+\] [^\n]*?(?:LOG|ERROR|FATAL|PANIC|WARNING): )/m, $log;

	$log_end{ $node->name } += length $log;
	return join('', @errors);
}

1;
