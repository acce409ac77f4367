# Room of make chaos: counters that follow a source table.
#
# There is no log but the source itself: a counter that is bound must be the count, the sum or the
# number of distinct values of its rows in every snapshot, whatever has happened to either.
# So the comparison reads both sides, once as SQL sees them, when nobody writes, and by
# dc_source_check() at any time. Builds, fixes and new bindings are among the transactions; a
# counter that is being built is compared when that is done, which is the worker's business
# if nobody else does it. Partitions come and go, and are truncated. Rows that a fault keeps
# from being counted would be differences: there are none to be let pass.
package DcChaos::Room::Bound;

use strict;
use warnings;

use DcChaos::Mix;

my @counters = ('b_n', 'b_sum', 'b_fans', 'b_pages', 'b_visitors');
my %bind = (
	b_n => q{'b_like', 'post', filter => 'NOT deleted'},
	b_sum => q{'b_like', 'post, fan % 3', value => 'amount'},
	b_fans => q{'b_like', 'post', distinct_of => 'fan', filter => 'NOT deleted'},
	b_pages => q{'b_visit', 'page'},
	b_visitors => q{'b_visit', 'page', distinct_of => 'visitor'});

my $schema = q{
	CREATE TABLE b_like (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, slot int UNIQUE, post int, fan int, amount int, deleted bool NOT NULL DEFAULT false, note text);
	CREATE TABLE b_visit (part int NOT NULL, page int, visitor int) PARTITION BY LIST (part);
	CREATE TABLE b_visit_1 PARTITION OF b_visit FOR VALUES IN (1);
	CREATE TABLE b_visit_2 PARTITION OF b_visit FOR VALUES IN (2);
	CREATE TABLE b_visit_3 PARTITION OF b_visit FOR VALUES IN (3);
	INSERT INTO b_like (post, fan, amount) SELECT 1 + g % 20, g % 11, g % 30 - 9 FROM generate_series(1, 300) AS g;
	INSERT INTO b_visit SELECT 1 + g % 3, g % 15, g % 7 FROM generate_series(1, 200) AS g;
	SELECT dc_create('b_n'), dc_create('b_sum', totals => 'compacted'), dc_create('b_fans'), dc_create('b_pages', partitions => 2), dc_create('b_visitors', max_shards => 1);
	BINDINGS

	CREATE FUNCTION b_visits(p int, n int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO b_visit SELECT p, random() * 15, random() * 7 FROM generate_series(1, n);
	EXCEPTION WHEN check_violation THEN
		EXECUTE format('INSERT INTO b_visit_%s SELECT %1$s, random() * 15, random() * 7 FROM generate_series(1, %s)', p, n);
	END $$;
	CREATE FUNCTION b_come_or_go() RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		LOCK b_visit IN SHARE UPDATE EXCLUSIVE MODE;
		IF EXISTS (SELECT FROM pg_inherits WHERE inhrelid = 'b_visit_3'::regclass) THEN
			ALTER TABLE b_visit DETACH PARTITION b_visit_3;
		ELSE
			ALTER TABLE b_visit ATTACH PARTITION b_visit_3 FOR VALUES IN (3);
		END IF;
	END $$;

	CREATE FUNCTION b_wrong() RETURNS SETOF text LANGUAGE sql AS $$
		WITH built AS MATERIALIZED (SELECT counter::text FROM dcounter.source_state WHERE state <> 'building'),
		source AS (SELECT 'b_n' AS counter, post::text AS key, count(*) AS n FROM b_like WHERE NOT deleted GROUP BY 2
			UNION ALL SELECT 'b_sum', jsonb_build_array(post, fan % 3)::text, sum(amount) FROM b_like WHERE post IS NOT NULL AND fan IS NOT NULL GROUP BY 2
			UNION ALL SELECT 'b_fans', post::text, count(DISTINCT fan) FROM b_like WHERE NOT deleted GROUP BY 2
			UNION ALL SELECT 'b_pages', page::text, count(*) FROM b_visit GROUP BY 2
			UNION ALL SELECT 'b_visitors', page::text, count(DISTINCT visitor) FROM b_visit GROUP BY 2),
		rows AS (SELECT 'b_n' AS counter, key, inc, dec FROM b_n UNION ALL SELECT 'b_n', key, inc, dec FROM b_n_shard
			UNION ALL SELECT 'b_sum', key, inc, dec FROM b_sum UNION ALL SELECT 'b_sum', key, inc, dec FROM b_sum_shard
			UNION ALL SELECT 'b_fans', key, inc, dec FROM b_fans UNION ALL SELECT 'b_fans', key, inc, dec FROM b_fans_shard
			UNION ALL SELECT 'b_pages', key, inc, dec FROM b_pages UNION ALL SELECT 'b_pages', key, inc, dec FROM b_pages_shard
			UNION ALL SELECT 'b_visitors', key, inc, dec FROM b_visitors UNION ALL SELECT 'b_visitors', key, inc, dec FROM b_visitors_shard),
		value AS (SELECT counter, key, sum(inc - dec) AS n FROM rows GROUP BY 1, 2),
		items AS (SELECT 'b_fans' AS counter, post::text AS key, fan::text AS item, count(*) AS n FROM b_like WHERE NOT deleted AND post IS NOT NULL AND fan IS NOT NULL GROUP BY 2, 3
			UNION ALL SELECT 'b_visitors', page::text, visitor::text, count(*) FROM b_visit WHERE page IS NOT NULL AND visitor IS NOT NULL GROUP BY 2, 3),
		refs AS (SELECT 'b_fans' AS counter, key, item, n FROM b_fans_ref UNION ALL SELECT 'b_visitors', key, item, n FROM b_visitors_ref)
		SELECT format('%s %s: source %s, value %s', counter, key, s.n, v.n) FROM source AS s FULL JOIN value AS v USING (counter, key) JOIN built USING (counter) WHERE coalesce(s.n, 0) <> coalesce(v.n, 0)
		UNION ALL SELECT format('%s %s %s: source %s, count %s', counter, key, item, i.n, r.n) FROM items AS i FULL JOIN refs AS r USING (counter, key, item) JOIN built USING (counter) WHERE i.n IS DISTINCT FROM r.n
		UNION ALL SELECT format('%s is not bound', c) FROM unnest('{COUNTERS}'::text[]) AS c WHERE c NOT IN (SELECT counter::text FROM dcounter.source)
		UNION ALL SELECT format('%s is %s', counter, state) FROM dcounter.source_state WHERE state NOT IN ('exact', 'building')
	$$;
	-- what is in no snapshot, if it was built by then
	CREATE FUNCTION b_check(c regclass) RETURNS void LANGUAGE plpgsql AS $$
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

# rebind: ends a binding and makes it anew, with the values that were there; then it is to be built
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
			[ 5, sub { sprintf "INSERT INTO b_like (post, fan, amount) SELECT %d + g %% 3, random() * 11, random() * 30 FROM generate_series(1, %d) AS g;\n", $post->(), num(1, 6) } ],
			[ 3, sub { sprintf "DELETE FROM b_like WHERE id IN (SELECT id FROM b_like WHERE post = %d ORDER BY id LIMIT %d);\n", $post->(), num(1, 6) } ],
			[ 2, sub { sprintf "UPDATE b_like SET post = %d WHERE post = %d AND fan %% 5 = %d;\n", $post->(), $post->(), num(0, 4) } ],
			[ 2, sub { sprintf "UPDATE b_like SET deleted = NOT deleted, amount = amount + 1, fan = %s WHERE post = %d AND fan %% 4 = %d;\n", pick('fan', 'NULL', num(1, 11)), $post->(), num(0, 3) } ],
			[ 1, sub { sprintf "UPDATE b_like SET note = 'x' WHERE post = %d;\n", $post->() } ],
			[ 2, sub { sprintf "INSERT INTO b_like (slot, post, fan, amount) VALUES (%d, %d, %d, 1) ON CONFLICT (slot) DO UPDATE SET post = excluded.post, fan = b_like.fan + 1;\n", num(1, 30), $post->(), num(1, 11) } ],
			[ 3, sub { sprintf "SELECT b_visits(%d, %d);\n", num(1, 3), num(1, 6) } ],
			[ 2, sub { sprintf "UPDATE b_visit SET part = %d, page = %d WHERE page = %d AND visitor %% 3 = %d;\n", num(1, 2), num(0, 15), num(0, 15), num(0, 2) } ],
			[ 1, sub { sprintf "DELETE FROM b_visit WHERE page = %d AND part = %d;\n", num(0, 15), num(1, 3) } ],
			[ 1, sub { sprintf "SELECT dc_get('%s', '%d'), dc_sum('%s');\n", pick(@counters), $post->(), pick(@counters) } ],
		],
		alone => [
			[ 1, sub { "BEGIN;\nTRUNCATE b_like;\nINSERT INTO b_like (post, fan, amount) SELECT 1 + g % 20, g % 11, 1 FROM generate_series(1, 100) AS g;\n" . pick('COMMIT', 'COMMIT', 'ROLLBACK') . ";\n" } ],
			[ 1, sub { sprintf "TRUNCATE b_visit_%d;\n", num(1, 3) } ],
			[ 2, sub { "SELECT b_come_or_go();\n" } ],
			[ 1, sub { "BEGIN;\nSELECT b_come_or_go();\nSELECT b_visits(3, 5);\n" . pick('COMMIT', "SELECT b_come_or_go();\nCOMMIT", 'ROLLBACK') . ";\n" } ],
			[ 1, sub { sprintf "CALL dc_build('%s', %d);\n", pick(@counters), num(1, 9) } ],
			[ 1, sub { sprintf "SELECT count(*) FROM dc_source_fix('%s', '{1,2,3}');\n", pick(@counters) } ],
			[ 0.5, \&rebind ],
		],
		roles => {
			source => {
				clients => 1,
				next => sub {
					return sprintf("BEGIN ISOLATION LEVEL %s;\nSELECT b_check('%s');\nSELECT b_check('%s');\nCOMMIT;\n", pick('READ COMMITTED', 'REPEATABLE READ'), pick(@counters), pick(@counters)) . "SELECT pg_sleep(0.02);\n";
				} },
		},
		tables => [ 'b_like', 'b_n', 'b_fans_ref', 'b_sum_shard', 'b_visitors' ],
		# a snapshot of before TRUNCATE and the like; a partition that is away or comes in between; a row
		# that an update would put there; a binding that is gone for a while
		allowed => '^25001: |^23514: |^42P01: |^55000: .*(?:not bound|being detached|truncate)|^55006: |^42710: |^23505: ',
		wrong => 'SELECT b_wrong()',
		idle => q{SELECT format('%s is still being built', counter) FROM dcounter.source_state WHERE state = 'building'},
	};
}

1;
