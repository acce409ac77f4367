# Room of make chaos: counters that follow a source table.
#
# There is no log but the source itself: a counter that is bound must be the count, the sum or the
# number of distinct values of its rows in every snapshot, whatever has happened to either.
# So the comparison reads both sides, once as SQL sees them, when nobody writes, and by
# dc_source_check() at any time. Builds, fixes and new bindings are among the transactions; a
# counter that is being built is compared when the build is done, by the worker if no client does
# it. Partitions are attached, detached and truncated. Rows that a fault keeps from being counted
# would be differences: none are tolerated.
package DcChaos::Room::Bound;

use strict;
use warnings;

use DcChaos::Mix;

my @counters = ('bd_n', 'bd_sum', 'bd_fans', 'bd_pages', 'bd_visitors', 'bd_sets');
my %bind = (
	bd_n => q{'bd_like', 'post', filter => 'NOT deleted'},
	bd_sum => q{'bd_like', 'post, fan % 3', value => 'amount'},
	bd_fans => q{'bd_like', 'post', distinct_of => 'fan', filter => 'NOT deleted'},
	bd_pages => q{'bd_visit', 'page'},
	bd_visitors => q{'bd_visit', 'page', distinct_of => 'visitor'},
	bd_sets => q{'bd_visit', 'page, visitor', value => '1 AS n, visitor - 2 AS v', group_by => 'CUBE (1, 2)'});

my $schema = q{
	CREATE TABLE bd_like (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, slot int UNIQUE, post int, fan int, amount int, deleted bool NOT NULL DEFAULT false, note text);
	CREATE TABLE bd_visit (part int NOT NULL, page int, visitor int) PARTITION BY LIST (part);
	CREATE TABLE bd_visit_1 PARTITION OF bd_visit FOR VALUES IN (1);
	CREATE TABLE bd_visit_2 PARTITION OF bd_visit FOR VALUES IN (2);
	CREATE TABLE bd_visit_3 PARTITION OF bd_visit FOR VALUES IN (3);
	INSERT INTO bd_like (post, fan, amount) SELECT 1 + g % 20, g % 11, g % 30 - 9 FROM generate_series(1, 300) AS g;
	INSERT INTO bd_visit SELECT 1 + g % 3, g % 15, g % 7 FROM generate_series(1, 200) AS g;
	SELECT dc_create('bd_n'), dc_create('bd_sum', totals => 'compacted'), dc_create('bd_fans'), dc_create('bd_pages', partitions => 2), dc_create('bd_visitors', max_shards => 1), dc_create('bd_sets');
	BINDINGS

	CREATE FUNCTION bd_visits(p int, n int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO bd_visit SELECT p, random() * 15, random() * 7 FROM generate_series(1, n);
	EXCEPTION WHEN check_violation THEN
		EXECUTE format('INSERT INTO bd_visit_%s SELECT %1$s, random() * 15, random() * 7 FROM generate_series(1, %s)', p, n);
	END $$;
	CREATE FUNCTION bd_come_or_go() RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		LOCK bd_visit IN SHARE UPDATE EXCLUSIVE MODE;
		IF EXISTS (SELECT FROM pg_inherits WHERE inhrelid = 'bd_visit_3'::regclass) THEN
			ALTER TABLE bd_visit DETACH PARTITION bd_visit_3;
		ELSE
			ALTER TABLE bd_visit ATTACH PARTITION bd_visit_3 FOR VALUES IN (3);
		END IF;
	END $$;

	CREATE FUNCTION bd_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		WITH built AS MATERIALIZED (SELECT counter::text FROM dcounter.source_state WHERE state <> 'building'),
		source AS (SELECT 'bd_n' AS counter, post::text AS key, count(*) AS n FROM bd_like WHERE NOT deleted GROUP BY 2
			UNION ALL SELECT 'bd_sum', jsonb_build_array(post, fan % 3)::text, sum(amount) FROM bd_like WHERE post IS NOT NULL AND fan IS NOT NULL GROUP BY 2
			UNION ALL SELECT 'bd_fans', post::text, count(DISTINCT fan) FROM bd_like WHERE NOT deleted GROUP BY 2
			UNION ALL SELECT 'bd_pages', page::text, count(*) FROM bd_visit GROUP BY 2
			UNION ALL SELECT 'bd_visitors', page::text, count(DISTINCT visitor) FROM bd_visit GROUP BY 2
			UNION ALL SELECT 'bd_sets', jsonb_build_array(page, visitor, m)::text, CASE m WHEN 'n' THEN count(*) ELSE sum(visitor - 2) END FROM bd_visit, unnest('{n,v}'::text[]) AS m GROUP BY m, CUBE (page, visitor)),
		rows AS (SELECT 'bd_n' AS counter, key, inc, dec FROM bd_n UNION ALL SELECT 'bd_n', key, inc, dec FROM bd_n_shard
			UNION ALL SELECT 'bd_sum', key, inc, dec FROM bd_sum UNION ALL SELECT 'bd_sum', key, inc, dec FROM bd_sum_shard
			UNION ALL SELECT 'bd_fans', key, inc, dec FROM bd_fans UNION ALL SELECT 'bd_fans', key, inc, dec FROM bd_fans_shard
			UNION ALL SELECT 'bd_pages', key, inc, dec FROM bd_pages UNION ALL SELECT 'bd_pages', key, inc, dec FROM bd_pages_shard
			UNION ALL SELECT 'bd_visitors', key, inc, dec FROM bd_visitors UNION ALL SELECT 'bd_visitors', key, inc, dec FROM bd_visitors_shard
			UNION ALL SELECT 'bd_sets', key, inc, dec FROM bd_sets UNION ALL SELECT 'bd_sets', key, inc, dec FROM bd_sets_shard),
		value AS (SELECT counter, key, sum(inc - dec) AS n FROM rows GROUP BY 1, 2),
		items AS (SELECT 'bd_fans' AS counter, post::text AS key, fan::text AS item, count(*) AS n FROM bd_like WHERE NOT deleted AND post IS NOT NULL AND fan IS NOT NULL GROUP BY 2, 3
			UNION ALL SELECT 'bd_visitors', page::text, visitor::text, count(*) FROM bd_visit WHERE page IS NOT NULL AND visitor IS NOT NULL GROUP BY 2, 3),
		refs AS (SELECT 'bd_fans' AS counter, key, item, n FROM bd_fans_ref UNION ALL SELECT 'bd_visitors', key, item, n FROM bd_visitors_ref)
		SELECT format('%s %s: source %s, value %s', counter, key, s.n, v.n) FROM source AS s FULL JOIN value AS v USING (counter, key) JOIN built USING (counter) WHERE coalesce(s.n, 0) <> coalesce(v.n, 0)
		UNION ALL SELECT format('%s %s %s: source %s, count %s', counter, key, item, i.n, r.n) FROM items AS i FULL JOIN refs AS r USING (counter, key, item) JOIN built USING (counter) WHERE i.n IS DISTINCT FROM r.n
		UNION ALL SELECT format('%s is not bound', c) FROM unnest('{COUNTERS}'::text[]) AS c WHERE c NOT IN (SELECT counter::text FROM dcounter.source)
		UNION ALL SELECT format('%s is %s', counter, state) FROM dcounter.source_state WHERE state NOT IN ('exact', 'building')
	$$;
	-- what is in no snapshot, if it was built by then
	CREATE FUNCTION bd_check(c regclass) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		before text := (SELECT state || epoch FROM dcounter.source_state WHERE counter = c);
		bad text := (SELECT string_agg(format('%s: %s, %s', key, source, x.counter), '; ') FROM dc_source_check(c) AS x);
	BEGIN
		IF bad IS NOT NULL AND before LIKE 'exact%' AND before = (SELECT state || epoch FROM dcounter.source_state WHERE counter = c) THEN
			RAISE SQLSTATE 'CHAOS' USING MESSAGE = format('%s: %s', c, bad);
		END IF;
	END $$;
} =~ s/BINDINGS/join('', map { "SELECT dc_bind('$_', $bind{$_});\n" } @counters)/er =~ s/COUNTERS/join(',', @counters)/er;

my $post = sub { num(1, 20) };

# rebind: ends a binding and makes it again, with the existing values; then it must be built
sub rebind
{
	my $counter = pick(@counters);

	return "BEGIN;\nSELECT dc_unbind('$counter');\nSELECT dc_bind('$counter', $bind{$counter}, lock_timeout => '1 s');\n" . pick("COMMIT;\nCALL dc_build('$counter', 3);\n", "COMMIT;\n", "ROLLBACK;\n");
}

sub room
{
	return {
		name => 'bound',
		schema => $schema,
		steps => [
			[ 5, sub { sprintf "INSERT INTO bd_like (post, fan, amount) SELECT %d + g %% 3, random() * 11, random() * 30 FROM generate_series(1, %d) AS g;\n", $post->(), num(1, 6) } ],
			[ 3, sub { sprintf "DELETE FROM bd_like WHERE id IN (SELECT id FROM bd_like WHERE post = %d ORDER BY id LIMIT %d);\n", $post->(), num(1, 6) } ],
			[ 2, sub { sprintf "UPDATE bd_like SET post = %d WHERE post = %d AND fan %% 5 = %d;\n", $post->(), $post->(), num(0, 4) } ],
			[ 2, sub { sprintf "UPDATE bd_like SET deleted = NOT deleted, amount = amount + 1, fan = %s WHERE post = %d AND fan %% 4 = %d;\n", pick('fan', 'NULL', num(1, 11)), $post->(), num(0, 3) } ],
			[ 1, sub { sprintf "UPDATE bd_like SET note = 'x' WHERE post = %d;\n", $post->() } ],
			[ 2, sub { sprintf "INSERT INTO bd_like (slot, post, fan, amount) VALUES (%d, %d, %d, 1) ON CONFLICT (slot) DO UPDATE SET post = excluded.post, fan = bd_like.fan + 1;\n", num(1, 30), $post->(), num(1, 11) } ],
			[ 3, sub { sprintf "SELECT bd_visits(%d, %d);\n", num(1, 3), num(1, 6) } ],
			[ 2, sub { sprintf "UPDATE bd_visit SET part = %d, page = %d WHERE page = %d AND visitor %% 3 = %d;\n", num(1, 2), num(0, 15), num(0, 15), num(0, 2) } ],
			[ 1, sub { sprintf "DELETE FROM bd_visit WHERE page = %d AND part = %d;\n", num(0, 15), num(1, 3) } ],
			[ 1, sub { sprintf "SELECT dc_get('%s', '%d'), dc_sum('%s');\n", pick(@counters), $post->(), pick(@counters) } ],
		],
		alone => [
			[ 1, sub { "BEGIN;\nTRUNCATE bd_like;\nINSERT INTO bd_like (post, fan, amount) SELECT 1 + g % 20, g % 11, 1 FROM generate_series(1, 100) AS g;\n" . pick('COMMIT', 'COMMIT', 'ROLLBACK') . ";\n" } ],
			[ 1, sub { sprintf "TRUNCATE bd_visit_%d;\n", num(1, 3) } ],
			[ 2, sub { "SELECT bd_come_or_go();\n" } ],
			[ 1, sub { "BEGIN;\nSELECT bd_come_or_go();\nSELECT bd_visits(3, 5);\n" . pick('COMMIT', "SELECT bd_come_or_go();\nCOMMIT", 'ROLLBACK') . ";\n" } ],
			[ 1, sub { sprintf "CALL dc_build('%s', %d);\n", pick(@counters), num(1, 9) } ],
			[ 1, sub { sprintf "SELECT count(*) FROM dc_source_fix('%s', '{1,2,3}');\n", pick(@counters) } ],
			[ 0.5, \&rebind ],
		],
		roles => {
			source => {
				clients => 1,
				next => sub {
					return sprintf("BEGIN ISOLATION LEVEL %s;\nSELECT bd_check('%s');\nSELECT bd_check('%s');\nCOMMIT;\n", pick('READ COMMITTED', 'REPEATABLE READ'), pick(@counters), pick(@counters)) . "SELECT pg_sleep(0.02);\n";
				} },
		},
		tables => [ 'bd_like', 'bd_n', 'bd_fans_ref', 'bd_sum_shard', 'bd_visitors' ],
		# a snapshot from before TRUNCATE and the like; a partition that is detached or attached
		# concurrently; a row that an update would move into one; a binding that does not exist for
		# a while
		allowed => '^25001: |^23514: |^42P01: |^55000: .*(?:not bound|being detached|truncate)|^55006: |^42710: |^23505: ',
		wrong => 'SELECT bd_wrong()',
		idle => q{SELECT format('%s is still being built', counter) FROM dcounter.source_state WHERE state = 'building'},
	};
}

1;
