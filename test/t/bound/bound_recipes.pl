# doc/bound.md, bound-operation.md, bound-recipes.md and rollups.md do what they say: their blocks of SQL run, and where a statement has its result in a
# comment after it ("SELECT ...;   -- 2, exact"), that is the result. Twice: with nobody else at
# work, and while clients write to the tables, to other keys than the examples have. (That blocks marked
# "error" fail is tested with those of all pages, in whole/readme.pl.)
#
# Of each section the counters that it has bound are compared with their sources, in plain SQL;
# and who reads a counter while it is replaced by another never sees one that is half built.
use strict;
use warnings;

use DcDoc;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('recipes', extension => 0, conf => [ 'autovacuum = off' ]);
my @blocks; # of a page

# What is written meanwhile: the table (names begin with it), what its keys need first, a script of pgbench, and, where two pages
# have a table of that name, what the right one's statement contains. Rows that another client has locked are skipped: clients do
# not deadlock with each other
my %writes = (
	likes => [ '', q{
		INSERT INTO likes (post_id, fan, tip) VALUES (:k, :n, :n), (:k + 1, :n, 1);
		UPDATE likes SET post_id = 1000 + (post_id + 1) % 4, deleted_at = CASE WHEN :n > 5 THEN now() END WHERE id IN (SELECT id FROM likes WHERE post_id = :k ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);
		DELETE FROM likes WHERE id IN (SELECT id FROM likes WHERE post_id = :k + 1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED); } ],
	visits => [ '', q{
		INSERT INTO visits VALUES ('/other', '2026-02-03'), ('/' || :n, '2026-02-04');
		DELETE FROM visits_2026_02 WHERE page = '/' || :n; } ],
	video_like => [ '', q{
		INSERT INTO video_like (video_id, fan) VALUES (:k, :n), (:k, :n), (:k + 1, :n);
		DELETE FROM video_like WHERE id IN (SELECT id FROM video_like WHERE video_id = :k ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED); } ],
	comments => [ q{INSERT INTO posts (id, title) SELECT i, 'other' FROM generate_series(1000, 1005) AS i}, q{
		INSERT INTO comments (post_id, body) VALUES (:k, 'x'), (:k + 1, 'y');
		UPDATE comments SET deleted_at = CASE WHEN deleted_at IS NULL THEN now() END WHERE id IN (SELECT id FROM comments WHERE post_id = :k ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED); }, 'comments_count' ],
	'comments of a blog' => [ q{INSERT INTO posts SELECT i, i % 3 FROM generate_series(1000, 1005) AS i}, q{
		INSERT INTO comments (post_id, blog_id) SELECT id, blog_id FROM posts WHERE id = :k FOR KEY SHARE;
		DELETE FROM comments WHERE id IN (SELECT id FROM comments WHERE post_id = :k ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);
		UPDATE posts SET blog_id = :n WHERE id = :k + 1; }, 'blog_id' ],
	orders => [ '', q{
		INSERT INTO orders (tenant, created_at) VALUES (:k, '2026-03-01 00:00+00'::timestamptz + :n * interval '5 hours'), (:k + 1, '2026-03-20 12:00+00');
		UPDATE orders SET created_at = created_at + interval '1 day', status = CASE WHEN :n > 5 THEN 'sent' ELSE 'lost' END WHERE id IN (SELECT id FROM orders WHERE tenant = :k AND created_at < '2026-03-20' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED); } ],
	votes => [ q{INSERT INTO articles (id, title) SELECT i, 'other' FROM generate_series(1000, 1005) AS i}, q{
		INSERT INTO votes (article_id, fan, vote) VALUES (:k, :n, 1), (:k + 1, :n, -1);
		UPDATE votes SET vote = -vote WHERE id IN (SELECT id FROM votes WHERE article_id = :k ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED); } ],
	plays => [ q{INSERT INTO songs (id, title) SELECT i, 'other' FROM generate_series(1000, 1005) AS i}, q{
		INSERT INTO plays (song_id) VALUES (:k);
		DELETE FROM plays WHERE id IN (SELECT id FROM plays WHERE song_id = :k ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED); } ],
	tagged => [ '', q{
		INSERT INTO tagged (tag, post_id) VALUES ('t' || :k, :n), ('t' || :n, :n);
		DELETE FROM tagged WHERE id IN (SELECT id FROM tagged WHERE tag = 't' || :k ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED); } ],
);

# patient(SQL): the same, with limits that a slow machine keeps
sub patient
{
	my ($sql) = @_;

	$sql =~ s/(lock_timeout = )'1 s'/$1'60 s'/g;
	$sql =~ s/(SELECT dc_bind\([^;]*)\);/$1, lock_timeout => '60 s');/g;
	return $sql;
}

# differing(DATABASE): keys of bound counters whose value is not what plain SQL finds in the source
sub differing
{
	my ($database) = @_;

	return sql($node, $database, q{
		CREATE FUNCTION pg_temp.differing(s dcounter.source) RETURNS bigint LANGUAGE plpgsql AS $$
		DECLARE
			n bigint;
		BEGIN
			EXECUTE format('SELECT count(*) FROM (SELECT CASE jsonb_array_length(a.key) WHEN 1 THEN a.key ->> 0 ELSE a.key::text END AS key, %s AS value
						FROM %s, jsonb_build_array(%s) AS a(key) WHERE %s AND NOT jsonb_path_exists(a.key, ''$[*] ? (@ == null)'') GROUP BY 1) AS s
					FULL JOIN (SELECT key, sum(inc - dec) AS value FROM (SELECT key, inc, dec FROM %s UNION ALL SELECT key, inc, dec FROM %s) AS u GROUP BY key) AS c USING (key)
				WHERE coalesce(s.value, 0) <> coalesce(c.value, 0)',
				CASE WHEN s.distinct_of IS NULL THEN format('sum(%s)', s.value) ELSE format('count(DISTINCT %s)', s.distinct_of) END,
				s.source, s.key, coalesce(s.filter, 'true'), s.counter, s.counter || '_shard') INTO n;
			RETURN n;
		END $$;
		SELECT coalesce(sum(pg_temp.differing(s)), 0) FROM dcounter.source AS s WHERE carried IS NULL AND key !~ 'GROUP BY';});
}

# start_writers(DATABASE, NAME)
sub start_writers
{
	my ($database, $name) = @_;
	my ($needs, $script) = @{ $writes{$name} };
	my ($table) = $name =~ /^(\w+)/;

	sql($node, $database, $needs) if $needs ne '';
	return start_command('pgbench', '-n', '-c', '3', '-T', '3600', '-f',
		file_of("writes.$table", "\\set k random(1000, 1003)\n\\set n random(1, 9)\nBEGIN;\n$script\nSAVEPOINT s;\n$script\nROLLBACK TO s;\nCOMMIT;\n"),
		$node->connstr($database));
}

# stop_writers(JOB, DATABASE): a test
sub stop_writers
{
	my ($job, $database) = @_;

	$job->{run}->signal('TERM'); # a shell may have its background jobs ignore INT
	finish_job($job);
	wait_for($node, 'postgres', "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'", 0);
	unlike($job->{err}, qr/ERROR/, "$database: writers meet no error");
	return;
}

# What readers of video_likes see while it is replaced: each answer once. Each is a transaction, so that it
# keeps no lock, of a session that has planned its query long before.
my $watch = q{
	CREATE TABLE seen (one bigint, two bigint, list bigint, UNIQUE (one, two, list));
	CREATE TABLE stop ();
	CREATE PROCEDURE watch() LANGUAGE plpgsql AS $$
	DECLARE
		one bigint;
		two bigint;
		list bigint;
	BEGIN
		WHILE NOT EXISTS (SELECT FROM stop) LOOP
			SELECT dc_get('video_likes', 1), dc_get('video_likes', 2) INTO one, two;
			list := (SELECT likes FROM video_list WHERE id = 2);
			INSERT INTO seen VALUES (one, two, list) ON CONFLICT DO NOTHING;
			COMMIT;
		END LOOP;
	END $$;
};

# run_section(DATABASE, SECTION, BUSY): its blocks; how many results were compared
sub run_section
{
	my ($database, $section, $busy) = @_;
	my ($compared, $writers, $reader) = (0);

	foreach my $block (grep { $_->{section} eq $section } @blocks)
	{
		my $name = "$database, line $block->{line}";
		my ($status, $out, $err) = $node->psql($database, "\\pset null NULL\n" . compared(patient($block->{text})));
		is($status, 0, "$name runs") or diag($err);
		foreach my $result (results($out))
		{
			is($result->[1] =~ s/\n/, /gr, $result->[0], "$name: as it says");
			$compared++;
		}
		# from the block on that has made the table
		foreach my $name (sort keys %writes)
		{
			my ($table) = $name =~ /^(\w+)/;

			next if !$busy || $writers || $block->{text} !~ /^CREATE TABLE $table /m || index($block->{text}, $writes{$name}[2] // '') < 0;
			$writers = start_writers($database, $name);
		}
		next if $reader || $block->{text} !~ /^CREATE VIEW video_list /m;
		sql($node, $database, $watch);
		$reader = start_command('psql', '-XAtq', '-d', $node->connstr($database), '-c', 'CALL watch()');
		isnt(wait_for($node, $database, 'SELECT count(*) > 0 FROM seen', 't'), '', 'a reader looks');
	}
	stop_writers($writers, "$database, $section") if $writers;
	if ($reader)
	{
		wait_for($node, $database, "SELECT count(*) FROM seen WHERE two = 1 AND list = 1", 1);
		sql($node, $database, 'INSERT INTO stop DEFAULT VALUES');
		finish_job($reader);
		is($reader->{err}, '', "$database: the reader meets no error");
		is(sql($node, $database, 'SELECT count(*) FROM seen WHERE one <> 2 OR two NOT IN (1, 7) OR list NOT IN (1, 7)'), '0',
			"$database: a reader never sees a half-built counter");
	}
	is(differing($database), '0', "$database, $section: counters are what their sources have");
	return $compared;
}

# how many results a page compares, at least
my %pages = (bound => 17, 'bound-operation' => 0, 'bound-recipes' => 27, rollups => 21);

foreach my $page (sort keys %pages)
{
	my (@sections, %seen);

	@blocks = grep { $_->{mark} eq 'sql' } blocks("$ENV{TESTDIR}/doc/$page.md");
	foreach my $block (@blocks)
	{
		push @sections, $block->{section} if !$seen{ $block->{section} }++;
	}
	foreach my $database ("$page idle", "$page busy")
	{
		my $compared = 0;

		sql($node, 'postgres', qq{CREATE DATABASE "$database" TEMPLATE template0});
		sql($node, $database, 'CREATE EXTENSION dcounter');
		$compared += run_section($database, $_, $database =~ /busy/) foreach @sections;
		cmp_ok($compared, '>=', $pages{$page}, "$database: results were compared");
		is(sql($node, $database, "SELECT count(*) FROM dcounter.source AS s, dc_source_check(s.counter)"), '0', "$database: no drift anywhere");
	}
}

$node->stop;
done_testing();
