# Limits that are altered while they are in use, against what was allowed: whichever sessions alter
# and call it at the same time, each key has used exactly the allowed units; a new key is not
# refused. Limits of which all keys are idle make room for others.
use strict;
use warnings;

use DcLimit;
use DcTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = torture(4, 60);
my $keys = 20_000;
my $node = limit_node('alter', 'fsync = off', "dcounter.limit_size = '32MB'");

sql($node, 'postgres', qq{
	SELECT dc_limit_create('fixed', 'fixed', 1000000, '1000 hours', max_keys => 200000), dc_limit_create('sliding', 'sliding', 1000000, '1000 hours', max_keys => 200000),
		dc_limit_create('log', 'log', 500, '1000 hours', max_keys => 500);
	CREATE UNLOGGED TABLE allowed (name text, key text, n bigint);
	CREATE SEQUENCE fresh;
	SELECT dc_create('alters');
	-- each key has used one
	SELECT count(*) FROM generate_series(1, $keys) AS i, unnest('{fixed,sliding}'::text[]) AS n, dc_limit(n, i::text) AS l WHERE NOT l.allowed;
	INSERT INTO allowed SELECT n, i::text, 1 FROM generate_series(1, $keys) AS i, unnest('{fixed,sliding}'::text[]) AS n});

# Limits are not transactional: a call and what is noted of it are one statement, which does not fail.
my %scripts = (
	ask => qq{
		\\set k random(1, $keys)
		\\set l random(1, 100)
		INSERT INTO allowed SELECT n, k, 2 FROM (VALUES ('fixed', :k), ('sliding', :k), ('log', :l)) AS v(n, k), dc_limit(n, k::text, 2) AS l WHERE l.allowed;
	},
	new => q{
		SELECT nextval('fresh') AS k \gset
		SELECT 1 / dc_allow(n, 'new ' || :k)::int FROM unnest('{fixed,sliding}'::text[]) AS n;
	},
	alter => q{
		\set more random(0, 3)
		SELECT dc_limit_alter('fixed', 1000000 + :more, on_full => CASE WHEN :more = 0 THEN 'allow' ELSE 'deny' END);
		SELECT dc_allow('fixed', '1', 5000000);
		SELECT dc_limit_alter('fixed', 1000000, CASE WHEN :more > 1 THEN interval '1000 hours' ELSE interval '1001 hours' END);
		SELECT dc_allow('fixed', '1', 5000000);
		SELECT dc_limit_alter('sliding', 1000000 + :more), dc_limit_alter('log', 500 + :more);
		SELECT dc_allow('sliding', '1', 5000000), dc_allow('log', '1', 1000);
		SELECT dc_incr('alters', 'n');
	});
my @jobs = map { start_command('pgbench', '-n', '-c', $_ eq 'alter' ? 2 : 4, '-T', $seconds, '-f', file_of($_, $scripts{$_}), $node->connstr('postgres')) } sort keys %scripts;
foreach my $job (@jobs)
{
	my $status = finish_job($job);

	is("$status $job->{err}", '0 ' . ($job->{err} =~ /\A(?:pgbench: )?$/ ? $job->{err} : ''), 'no call has failed, nor was a new key refused');
}
note(sql($node, 'postgres', q{SELECT format('%s alters, %s calls, %s new keys', dc_get('alters', 'n'), (SELECT count(*) FROM allowed), last_value) FROM fresh}));
sql($node, 'postgres', q{SELECT dc_limit_alter('fixed', 1000000, '1000 hours'), dc_limit_alter('sliding', 1000000), dc_limit_alter('log', 500)});
is(sql($node, 'postgres', q{
	SELECT coalesce(string_agg(format('%s %s: used %s, left %s', name, key, sum, remaining), '; '), 'none')
	FROM (SELECT name, key, sum, remaining FROM (SELECT name, key, sum(n) FROM allowed GROUP BY name, key) AS a, dc_limit_peek(name, key)
		WHERE remaining <> CASE name WHEN 'log' THEN 500 ELSE 1000000 END - sum LIMIT 3) AS wrong}), 'none', 'each key has used what it was allowed');
my $version = sql($node, 'postgres', q{SELECT version FROM dcounter.limit_rule WHERE name = 'log'});

##
## More limits than have room
sql($node, 'postgres', q{SELECT dc_limit_create('short ' || i, 'fixed', 5, '1 ms') FROM generate_series(1, 1500) AS i});
is(sql($node, 'postgres', q{SELECT count(*) FILTER (WHERE dc_allow('short ' || i, 'k')) FROM generate_series(1, 1500) AS i}), '1500', 'limits whose keys are idle make room');
sql($node, 'postgres', q{SELECT dc_limit_alter('short ' || i, per => '1000 hours') FROM generate_series(1, 1500) AS i});
fails_with($node, 'postgres', q{SELECT count(dc_allow('short ' || i, 'k')) FROM generate_series(1, 1500) AS i}, '53200', 'limits whose keys are not, do not');
is(sql($node, 'postgres', q{SELECT dc_limit_reset('short 1', 'k'), dc_allow('short 1500', 'k')}), 't|t', 'until one is free');
sql($node, 'postgres', q{SELECT count(dc_limit_reset('short ' || i, 'k')) FROM generate_series(2, 1500) AS i});
is(sql($node, 'postgres', q{SELECT allowed FROM (SELECT array_agg('short ' || i) AS names, array_agg(i) AS keys FROM generate_series(1001, 1064) AS i) AS a, dc_limit_all(names, keys)}), 't',
	'limits of one call do not take the room of each other');

$node->stop;
done_testing();
