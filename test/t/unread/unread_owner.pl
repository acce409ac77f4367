# What the owner of an unread table may do to it while others mark and read hurts nobody else. Calls fail
# with an error that says what is wrong, no code of the owner runs for them, and once the table is as it was, everything works again.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('owner', conf => [ "deadlock_timeout = '100ms'" ]);

sql($node, 'postgres', q{
	CREATE ROLE mallory LOGIN;
	CREATE ROLE alice LOGIN;
	CREATE SCHEMA m AUTHORIZATION mallory;
	GRANT USAGE ON SCHEMA m TO alice;
	CREATE TABLE ran (what text, who text, session text);
	GRANT INSERT ON ran TO PUBLIC;
	SET ROLE mallory;
	SELECT dc_create('m.c'); SELECT dc_unread_create('m.seen', 'm.c');
	SELECT dc_create('m.p', partitions => 2); SELECT dc_unread_create('m.seen_p', 'm.p');
	GRANT SELECT, INSERT, UPDATE, DELETE ON m.c, m.p, m.seen, m.seen_p TO alice;
	CREATE FUNCTION m.note() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO public.ran VALUES (TG_TABLE_NAME, current_user, session_user);
		RETURN coalesce(NEW, OLD);
	END $$;
	CREATE FUNCTION m.note(n bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
	BEGIN
		PERFORM m.volatile_note();
		RETURN n;
	END $$;
	CREATE FUNCTION m.volatile_note() RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO public.ran VALUES ('expression', current_user, session_user);
	END $$;});

# as(ROLE, SQL): its output, or "ERROR sqlstate"
sub as
{
	my ($role, $sql) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSET ROLE $role;\n$sql");

	return $err =~ /ERROR:  (\w{5}):/ ? "ERROR $1" : $out;
}

sub ran
{
	return sql($node, 'postgres', 'SELECT count(*) FROM ran');
}

is(as('alice', q{SELECT dc_incr('m.c', 'a', 5), dc_incr('m.p', 'a', 5); SELECT dc_mark_read('m.seen', 'alice', 'a', 2), dc_mark_read('m.seen_p', 'alice', 'a', 2)}), "|\n|", 'alice marks');

# ------------------------------------------------------------
# One thing after the other: what is put on the table, and how it is taken off
# ------------------------------------------------------------
my @harm = (
	[ 'a row trigger', 'CREATE TRIGGER t BEFORE INSERT OR UPDATE ON m.seen FOR EACH ROW EXECUTE FUNCTION m.note()', 'DROP TRIGGER t ON m.seen', '42809', 3 ],
	[ 'a statement trigger', 'CREATE TRIGGER t AFTER UPDATE ON m.seen FOR EACH STATEMENT EXECUTE FUNCTION m.note()', 'DROP TRIGGER t ON m.seen', '42809', 3 ],
	[ 'a constraint trigger', 'CREATE CONSTRAINT TRIGGER t AFTER INSERT OR UPDATE ON m.seen DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION m.note()', 'DROP TRIGGER t ON m.seen', '42809', 3 ],
	[ 'a rule', q{CREATE RULE r AS ON UPDATE TO m.seen DO INSTEAD INSERT INTO public.ran VALUES ('rule', current_user, session_user)}, 'DROP RULE r ON m.seen', '42809', 3 ],
	[ 'a check', 'ALTER TABLE m.seen ADD CONSTRAINT c CHECK (m.note(seen) > 0) NOT VALID', 'ALTER TABLE m.seen DROP CONSTRAINT c', '42809', 3 ],
	[ 'an index with an expression', 'CREATE INDEX i ON m.seen (m.note(seen))', 'DROP INDEX m.i', '42809', 3 ],
	[ 'an index with a condition', 'CREATE INDEX i ON m.seen (key) WHERE m.note(seen) > 0', 'DROP INDEX m.i', '42809', 3 ],
	[ 'a generated column', 'ALTER TABLE m.seen ADD COLUMN g bigint GENERATED ALWAYS AS (m.note(seen)) STORED', 'ALTER TABLE m.seen DROP COLUMN g', '42809', 3 ],
	[ 'a default', 'ALTER TABLE m.seen ADD COLUMN d bigint DEFAULT m.note(1)', 'ALTER TABLE m.seen DROP COLUMN d', '42809', 3 ],
	[ 'a foreign key', 'CREATE TABLE m.members (member text COLLATE "C" PRIMARY KEY); ALTER TABLE m.seen ADD CONSTRAINT f FOREIGN KEY (member) REFERENCES m.members NOT VALID', 'ALTER TABLE m.seen DROP CONSTRAINT f; DROP TABLE m.members', '42809', 3 ],
	[ 'a policy', 'CREATE POLICY p ON m.seen USING (m.note(seen) > 100); ALTER TABLE m.seen ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', 'ALTER TABLE m.seen DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY; DROP POLICY p ON m.seen', '0A000', 'ERROR 0A000' ],
	[ 'another type', 'ALTER TABLE m.seen ALTER seen TYPE text', 'ALTER TABLE m.seen ALTER seen TYPE bigint USING seen::bigint', '42809', 'ERROR 42809' ],
	[ 'a domain', 'CREATE DOMAIN m.num AS bigint CHECK (m.note(VALUE) > 0); ALTER TABLE m.seen ALTER seen TYPE m.num', 'ALTER TABLE m.seen ALTER seen TYPE bigint; DROP DOMAIN m.num', '42809', 'ERROR 42809' ],
	[ 'another collation', 'ALTER TABLE m.seen ALTER member TYPE text COLLATE "POSIX"', 'ALTER TABLE m.seen ALTER member TYPE text COLLATE "C"', '42809', 'ERROR 42809' ],
	[ 'nulls', 'ALTER TABLE m.seen ALTER seen DROP NOT NULL', 'ALTER TABLE m.seen ALTER seen SET NOT NULL', '42809', 'ERROR 42809' ],
	[ 'no key', 'ALTER TABLE m.seen DROP CONSTRAINT seen_pkey', 'ALTER TABLE m.seen ADD PRIMARY KEY (member, key)', '42809', 'ERROR 42809' ],
	[ 'a child', 'CREATE TABLE m.child () INHERITS (m.seen)', 'DROP TABLE m.child', '42809', 'ERROR 42809' ],
	[ 'unlogged', 'ALTER TABLE m.seen SET UNLOGGED', 'ALTER TABLE m.seen SET LOGGED', '42809', 'ERROR 42809' ],
	[ 'no rights', 'REVOKE ALL ON m.seen FROM alice', 'GRANT SELECT, INSERT, UPDATE ON m.seen TO alice', '42501', 'ERROR 42501' ],
	[ 'no rights to the counter', 'REVOKE SELECT ON m.c FROM alice', 'GRANT SELECT ON m.c TO alice', '42501', 'ERROR 42501' ]);

foreach my $harm (@harm)
{
	my ($what, $do, $undo, $state, $read) = @$harm;
	my $before;

	as('mallory', $do) eq '' or die "$what: " . as('mallory', $do);
	$before = ran();
	is(as('alice', q{SELECT dc_mark_read('m.seen', 'alice', 'a', 3)}), "ERROR $state", "$what: a mark is refused");
	is(as('alice', q{SELECT unread FROM dc_unread('m.seen', 'alice', '{a}')}), $read, "$what: a read");
	is(ran(), $before, "$what: nothing of its own ran");
	as('mallory', $undo) eq '' or die "$what, undone";
	is(as('alice', q{SELECT dc_mark_read('m.seen', 'alice', 'a', 2); SELECT unread FROM dc_unread('m.seen', 'alice', '{a}')}), "\n3", "$what: when it is gone, all is as before");
}

# ------------------------------------------------------------
# In the session itself, between two steps of a call
# ------------------------------------------------------------
# A trigger on the counter's own tables runs within dc_delete(), before that writes to the table
foreach my $ddl ('ALTER TABLE m.seen ALTER seen TYPE numeric', 'DROP TABLE m.seen CASCADE', 'ALTER TABLE m.seen DROP COLUMN seen, ADD COLUMN seen bigint NOT NULL DEFAULT 0',
	'CREATE TRIGGER t BEFORE INSERT ON m.seen FOR EACH ROW EXECUTE FUNCTION m.note()', 'ALTER TABLE m.seen RENAME TO looked; ALTER TABLE m.looked ADD COLUMN x int')
{
	as('alice', q{SELECT dc_incr('m.c', 'x', 5)});
	is(as('mallory', qq{
		CREATE FUNCTION m.worst() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN $ddl; RETURN OLD; END \$\$;
		CREATE TRIGGER worst BEFORE DELETE ON m.c FOR EACH ROW EXECUTE FUNCTION m.worst();
		CREATE TRIGGER worst BEFORE DELETE ON m.c_shard FOR EACH ROW EXECUTE FUNCTION m.worst();}), '', "$ddl: set up");
	like(as('alice', q{BEGIN; SELECT dc_delete('m.c', 'x'); ROLLBACK}), $ddl =~ /DROP TABLE|DROP COLUMN/ ? qr/^\d+$|^ERROR 42809$/ : qr/ERROR 42809/, "$ddl, in the midst of dc_delete()");
	as('mallory', 'DROP FUNCTION m.worst() CASCADE');
	is(as('alice', q{SELECT unread FROM dc_unread('m.seen', 'alice', '{a}')}), '3', 'rolled back, all is as before');
}

# The condition of an index is evaluated when a statement on the counter is planned: there the table is open
foreach my $ddl ('ALTER TABLE m.seen_p ALTER seen TYPE numeric', 'DROP TABLE m.seen_p', 'CREATE TRIGGER t BEFORE INSERT OR UPDATE ON m.seen_p FOR EACH ROW EXECUTE FUNCTION m.note()',
	'CREATE INDEX i ON m.seen_p (m.note(seen))', 'CREATE UNIQUE INDEX i ON m.seen_p (key, member)')
{
	is(as('mallory', qq{
		CREATE TABLE m.armed (n int);
		CREATE FUNCTION m.attack() RETURNS void LANGUAGE plpgsql AS \$\$ BEGIN
			IF EXISTS (SELECT FROM m.armed) THEN
				DELETE FROM m.armed;
				$ddl;
			END IF;
		END \$\$;
		CREATE FUNCTION m.condition(n int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS \$\$ BEGIN PERFORM m.attack(); RETURN true; END \$\$;
		CREATE INDEX condition ON m.p (key) WHERE m.condition(1);
		INSERT INTO m.armed VALUES (1);}), '', "$ddl: set up");
	my $plain = $ddl =~ /UNIQUE/;

	like(as('alice', q{BEGIN; SELECT dc_mark_read('m.seen_p', 'alice', 'a', 4); ROLLBACK}), $plain ? qr/^(ERROR \w+)?$/ : qr/^ERROR (42809|55006|55000|0A000|42501|2BP01)$/, "$ddl, in the midst of a mark");
	like(as('alice', q{BEGIN; SELECT unread FROM dc_unread('m.seen_p', 'alice', '{a,b}'); ROLLBACK}), qr/^(3\n5|3\n0|ERROR (42809|55006|55000|0A000|42501|2BP01))$/, "$ddl, in the midst of a read");
	as('mallory', 'DROP TABLE m.armed; DROP INDEX m.condition; DROP FUNCTION m.condition(int), m.attack()');
	is(as('alice', q{SELECT unread FROM dc_unread('m.seen_p', 'alice', '{a}')}), '3', 'rolled back, all is as before');
}

# ------------------------------------------------------------
# From other sessions, at any moment
# ------------------------------------------------------------
sql($node, 'postgres', q{SET ROLE mallory; SELECT dc_incr('m.c', 'k' || i, 1000) FROM generate_series(1, 5) AS i});
my $marks = q{
\set m random(1, 4)
\set k random(1, 5)
\set n random(1, 1000)
SET ROLE alice;
SELECT dc_mark_read('m.seen', 'm' || :m, 'k' || :k, :n);
SELECT * FROM dc_unread('m.seen', 'm' || :m, '{k1,k2,k3,k4,k5}');
SELECT dc_incr('m.c', 'k' || :k);
SELECT dc_delete('m.c', 'other');
SELECT dc_incr('m.c', 'other');
};
my $until = time + torture(12, 300);

# Clients that go on after an error
my @jobs = map {
	start_command('psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-f', file_of("marks$_", join('', map {
		sprintf q{
SET ROLE alice;
SELECT dc_mark_read('m.seen', 'm%1$d', 'k%2$d', %3$d);
SELECT count(*) FROM dc_unread('m.seen', 'm%1$d', '{k1,k2,k3,k4,k5}');
SELECT dc_incr('m.c', 'k%2$d');
SELECT dc_incr('m.c', 'other');
SELECT dc_delete('m.c', 'other');
}, 1 + int(rand(4)), 1 + int(rand(5)), 1 + int(rand(1000)) } 1 .. torture(1500, 40000))))
} 1 .. 3;
my @changes = grep { $_->[0] !~ /rights|child/ } @harm;
my $n = 0;

while (time < $until)
{
	my ($what, $do, $undo) = @{ $changes[ $n++ % @changes ] };

	$undo =~ s/ALTER seen SET NOT NULL/ALTER seen SET NOT NULL/;
	foreach my $sql ($do, $undo)
	{
		# a deadlock is tried again
		my $result;

		1 while ($result = as('mallory', "BEGIN; $sql; COMMIT")) eq 'ERROR 40P01';
		is($result, '', "mallory: $what") if $result ne '';
	}
}
cmp_ok($n, '>=', 5, 'the table was altered again and again');
foreach my $job (@jobs)
{
	my %seen;

	finish_job($job);
	$seen{$1}++ while $job->{err} =~ /ERROR:  (\w{5}):/g;
	note(join(', ', map { "$_ $seen{$_}" } sort keys %seen));
	is(join(' ', grep { !/^(42809|0A000|55000|40P01|42P01)$/ } sort keys %seen), '', 'calls work, or say what is wrong');
	unlike($job->{err}, qr/server closed|connection to server was lost/, 'the server is up');
}
is(as('alice', q{SELECT dc_mark_read('m.seen', 'm1', 'k1'); SELECT unread FROM dc_unread('m.seen', 'm1', '{k1}')}), "\n0", 'and all goes on');
is(sql($node, 'postgres', q{SELECT count(*) FROM ran WHERE who <> 'mallory'}), '0', 'no code of its own ran as somebody else');
is(sql($node, 'postgres', q{SET enable_seqscan = off; SELECT count(*) FROM m.seen AS s WHERE (SELECT count(*) FROM m.seen AS t WHERE t.member = s.member AND t.key = s.key) <> 1}), '0', 'each row is there once');

$node->stop;
done_testing();
