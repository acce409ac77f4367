# The queries for postgres_exporter in doc/prometheus.md work as it runs them, as a member of pg_monitor. Each query of the
# dashboard (doc/grafana.json), of its menus too, finds series in what the exporter says, and the alerts of doc/prometheus.md
# and doc/operations.md name metrics that are there. doc/statistics.md lists the jobs of the worker, and the columns of
# dc_stat_hot_keys.
use strict;
use warnings;

use DcBuffer;
use DcTest;
use IO::Socket::INET;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my ($exporter) = grep { -x } map { "$_/prometheus-postgres-exporter" } split /:/, $ENV{PATH};
plan skip_all => 'no prometheus-postgres-exporter here' if !$exporter;

my $page = slurp_file("$ENV{TESTDIR}/doc/prometheus.md");
my $statistics = slurp_file("$ENV{TESTDIR}/doc/statistics.md");
my ($queries) = $page =~ /^```yaml\n(dcounter:\n.*?)^```$/ms;
my ($alerts) = $page =~ /^```yaml\n(groups:\n.*?)^```$/ms;
my $guide = join '', slurp_file("$ENV{TESTDIR}/doc/operations.md") =~ /^\| (`dcounter_.*)$/mg;
my $dashboard = decode_json(slurp_file("$ENV{TESTDIR}/doc/grafana.json"));

# the metrics that alerts look at, and the queries of the dashboard, with the labels that they show
my %named = map { $_ => 1 } "$alerts$guide" =~ /\b(dcounter_\w+)/g;
my @queries;
foreach my $variable (grep { $_->{type} eq 'query' } @{ $dashboard->{templating}{list} })
{
	my ($selector, $label) = $variable->{query} =~ /^label_values\((.*), (\w+)\)$/ or die $variable->{query};
	push @queries, { expr => $selector, labels => [$label] };
}
my @panels = @{ $dashboard->{panels} };
while (my $panel = shift @panels)
{
	push @panels, @{ $panel->{panels} // [] };
	push @queries, map { { expr => $_->{expr}, labels => [ $_->{legendFormat} =~ /\{\{(\w+)\}\}/g ] } } @{ $panel->{targets} // [] };
}
cmp_ok(scalar(keys %named), '>=', 15, 'metrics are named');
cmp_ok(scalar(@queries), '>=', 25, 'queries of the dashboard');

my $node = dc_node('grafana', init => { allows_streaming => 'logical' },
	conf => [ q{shared_preload_libraries = 'dcounter'}, q{listen_addresses = '127.0.0.1'}, 'dcounter.buffer_size = 1MB' ]);

# something of everything
sql($node, 'postgres', q{
	CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
	SELECT dc_create('likes');
	SELECT dc_create('views', mode => 'buffered', flush_interval => '1 hour');
	CREATE TABLE post (id int PRIMARY KEY, author text NOT NULL);
	SELECT dc_create('posts');
	SELECT dc_bind('posts', 'post', key => 'author', build => 'none');
	CALL dc_build('posts');
	INSERT INTO post VALUES (1, 'ann');
	SELECT dc_limit_create('api', 'gcra', rate => 10, per => '1 min');
	SELECT dc_limit_grant('api', 'monitor');
	SELECT dc_limit('api', 'a');
	SELECT dc_presence_create('chat');
	SELECT dc_presence_grant('chat', 'monitor');
	SELECT dc_enter('chat', 'lobby', 'ann');
	SELECT dc_region_init('eu');
	INSERT INTO dcounter.region (region, epoch) VALUES ('us', 7);
	CREATE SUBSCRIPTION dc_from_asia CONNECTION 'dbname=nowhere' PUBLICATION dcounter_own WITH (connect = false);
	INSERT INTO dcounter.region (region, epoch) VALUES ('asia', 7);
	SELECT dc_stock_create('seats');
	SELECT dc_restock('seats', 'a', 5);
	GRANT SELECT ON seats TO monitor;
	SELECT dc_stock_create('secret');
	SELECT dc_consumer_create('page', ARRAY['news']);
	SELECT dc_publish('news', 'a', 'said', '{}');
	SELECT dc_incr('likes', 'a') FROM generate_series(1, 100);
	DO $$ BEGIN FOR i IN 1..500 LOOP PERFORM dc_incr('likes', 'a'); COMMIT; END LOOP; END $$;
});
is(sql($node, 'postgres', q{SET ROLE monitor; SELECT counter, state FROM dc_stat_drift}), 'posts|exact',
	'a member of pg_monitor sees bound counters that it may not read');
is(sql($node, 'postgres', q{CREATE ROLE nobody; SET ROLE nobody; SELECT count(*) FROM dc_stat_drift}), '0', 'others do not');
sql($node, 'postgres', q{SELECT dc_incr('likes', 'a')});
# kept in memory only where a worker runs
worker_runs($node, 'postgres');
sql($node, 'postgres', q{SELECT dc_incr('views', 'a')});

my $port = PostgreSQL::Test::Cluster::get_free_port();
my ($out, $err) = ('', '');
local $ENV{DATA_SOURCE_NAME} = 'host=127.0.0.1 port=' . $node->port . ' user=monitor dbname=postgres sslmode=disable';
# TCP is only for what this test starts
$node->append_conf('pg_hba.conf', "host all monitor 127.0.0.1/32 trust\n");
$node->reload;
my $run = IPC::Run::start([ $exporter, "--web.listen-address=127.0.0.1:$port", '--extend.query-path=' . file_of('queries.yaml', $queries),
		'--disable-default-metrics', '--disable-settings-metrics' ], '<', \undef, '>', \$out, '2>', \$err);

# scrape(): what the exporter says, "" if it does not listen yet
sub scrape
{
	my $socket = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port", Timeout => 10) or return '';

	print $socket "GET /metrics HTTP/1.0\r\n\r\n";
	local $/;
	return scalar(<$socket>) // '';
}

my $metrics = '';
for (my $i = 0; $i < 600 && $metrics !~ /^dcounter_/m; $i++)
{
	$metrics = scrape();
	sleep 0.1 if $metrics !~ /^dcounter_/m;
}
$run->pump_nb;
like($metrics, qr/^dcounter_increments\{[^}]*counter="likes"[^}]*\} 601$/m, 'a metric has its value');
like($metrics, qr/^dcounter_stock_units\{[^}]*counter="seats"[^}]*\} 5$/m, 'units of a stock that the role may read');
unlike($metrics, qr/^dcounter_stock_units\{[^}]*counter="secret"/m, 'not of another one');
like($metrics, qr/^dcounter_region_link_down\{[^}]*region="asia"[^}]*\} 1$/m, 'a link that is disabled');
like($metrics, qr/^dcounter_region_advice_needed\{[^}]*advice="there is no link from us to eu: dc_region join"[^}]*\} 1$/m, 'what is to be done about regions');
like($metrics, qr/^dcounter_consumer_lag_events\{[^}]*name="page"[^}]*\} 1$/m, 'what a consumer has to do');
foreach my $name (sort keys %named)
{
	like($metrics, qr/^\Q$name\E\{/m, "there is $name");
}

# found(NAME, MATCHERS): the series that a selector finds, as hashes of labels; whatever is chosen in the menus, "all" is .*
sub found
{
	my ($name, $matchers) = @_;
	my @series;

	foreach my $labels ($metrics =~ /^\Q$name\E\{(.*)\} \S+$/mg)
	{
		my %labels = $labels =~ /(\w+)="((?:[^"\\]|\\.)*)"/g;
		my $fits = 1;

		while ($matchers =~ /(\w+)=~"([^"]*)"/g)
		{
			my ($label, $pattern) = ($1, $2);

			$pattern =~ s/\$\w+/.*/;
			$fits &&= defined $labels{$label} && $labels{$label} =~ /^(?:$pattern)$/;
		}
		push @series, \%labels if $fits;
	}
	return @series;
}

foreach my $query (@queries)
{
	my $rest = $query->{expr};
	my @selectors;

	push @selectors, [ $1, $2 // '' ] while $rest =~ s/(dcounter_\w+)(?:\{([^}]*)\})?/#/;
	like($rest, qr{^(?:rate|increase|topk|min|by|database|10|[ (),/#]|\[\$__rate_interval\])+$}, "nothing else is asked for in $query->{expr}");
	foreach my $selector (@selectors)
	{
		my @series = found(@$selector);

		ok(@series > 0, "$selector->[0] {$selector->[1]} finds something");
		is(join(' ', grep { my $label = $_; grep { !exists $_->{$label} } @series } @{ $query->{labels} }), '', 'with the labels that are shown');
	}
}
# each column of each query that is a metric
my $prefix;
foreach (split /\n/, $queries)
{
	$prefix = $1 if /^(\w+):$/;
	next if !/^    - (\w+): \{usage: "(?:COUNTER|GAUGE)"/;
	like($metrics, qr/^# TYPE ${prefix}_$1 /m, "there is ${prefix}_$1");
}
my ($jobs) = $statistics =~ /^\| `job` \| (.*) \|$/m;
is(join(' ', sort grep { !/^dc_/ } $jobs =~ /`(\w+)`/g), sql($node, 'postgres', q{SELECT string_agg(job, ' ' ORDER BY job COLLATE "C") FROM dc_stat_worker WHERE datname = 'postgres'}),
	'the page lists the jobs of the worker');
my ($hot) = $statistics =~ /^## dc_stat_hot_keys\n(.*?)^##/ms;
is(join(' ', map { /`(\w+)`/g } $hot =~ /^\| (`\w+`) \|/mg), sql($node, 'postgres', q{SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'dc_stat_hot_keys'::regclass AND attnum > 0}),
	'and the columns of dc_stat_hot_keys');
like($metrics, qr/^pg_exporter_last_scrape_error\{?[^}]*\}? 0$/m, 'no query fails') or diag($err);
$run->kill_kill;
$node->stop;
done_testing();
