# A source with very many partitions, each of which is a lock: the worker leaves it to its owner.
use strict;
use warnings;

use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = dc_node('many', conf => [ "shared_preload_libraries = 'dcounter'", 'autovacuum = off', 'fsync = off' ]);

# without the extension, whose event triggers are called for each, they are made in less time
$node->safe_psql('postgres', 'CREATE DATABASE many TEMPLATE template0');
$node->safe_psql('many', q{
	CREATE ROLE alice; CREATE SCHEMA a AUTHORIZATION alice;
	SET ROLE alice;
	CREATE TABLE a.few (k int);
	INSERT INTO a.few VALUES (1);
	CREATE TABLE a.many (k int) PARTITION BY LIST (k);
	DO $$BEGIN FOR i IN 1 .. 2001 LOOP EXECUTE format('CREATE TABLE a.many_%s PARTITION OF a.many FOR VALUES IN (%s)', i, i); IF i % 100 = 0 THEN COMMIT; END IF; END LOOP; END$$;
	INSERT INTO a.many VALUES (7);
	RESET ROLE;
	CREATE EXTENSION dcounter;
	SET ROLE alice;
	SELECT dc_create('a.m'), dc_create('a.f');
	SELECT dc_bind('a.m', 'a.many', 'k');
	SELECT dc_bind('a.f', 'a.few', 'k');});

my $state = q{SELECT string_agg(counter || ' ' || state, ', ' ORDER BY counter::text) FROM dcounter.source_state};
is(wait_for($node, 'many', $state, 'a.f exact, a.m building'), 'a.f exact, a.m building', 'the worker builds what was bound later');
sql($node, 'many', 'SET ROLE alice; CALL dc_maintain()');
is(sql($node, 'many', $state), 'a.f exact, a.m exact', 'dc_maintain() builds the one with very many partitions');
is(sql($node, 'many', q{SELECT dc_get('a.m', '7')}), '1', 'and it counts');
$node->stop;
done_testing();
