# Mergeable types from outside: mutated text and binary input of all of them. It is taken or
# refused by an error of the input's (22, or 54 if it is too much), never by an internal
# one; what is taken comes back unchanged from both forms, obeys the laws of a lattice, and
# all functions can work on it. Sizes that are only said take no memory.
use strict;
use warnings;

use DcMutate;
use DcTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @types = qw(dc_gcounter dc_pncounter dc_gset dc_orset dc_lww dc_mvreg dc_hlc dc_vclock);
my $each = torture(300, 5000);    # inputs of a type and a form

my $seed = $ENV{DC_SEED} // int(rand(1e9));
srand($seed);
note("seed $seed (set DC_SEED to repeat)");

# A database's bytes are text in its encoding; other bytes can reach a type only in binary input,
# not as text.
my %encodings = (UTF8 => 1, LATIN1 => 0.3, SQL_ASCII => 0.3);

my $node = dc_node('main', extension => 0, conf => [ 'autovacuum = off', 'shared_buffers = 8MB', "dcounter.node = 'here'" ]);
my $major = sql($node, 'postgres', 'SHOW server_version_num') / 10000;
my $folder = PostgreSQL::Test::Utils::tempdir();

my $schema = q{
	CREATE EXTENSION dcounter;
	CREATE TABLE input (id int PRIMARY KEY, type text, is_text bool, bytes bytea, state text);
	CREATE TABLE problem (what text, type text, input bytea, said text);

	-- The types' values from a form, with the SQLSTATE of the error.
	CREATE FUNCTION take(i input) RETURNS text LANGUAGE plpgsql AS $$
		BEGIN
			IF i.is_text THEN
				EXECUTE format('INSERT INTO %1$I_taken (id, v) VALUES ($1, $2::%1$I)', i.type) USING i.id, convert_from(i.bytes, getdatabaseencoding());
			ELSE
				EXECUTE format('COPY (SELECT %s, bytes FROM input WHERE id = %s) TO %L (FORMAT binary)', i.id, i.id, 'FOLDER/value');
				EXECUTE format('COPY %I_taken (id, v) FROM %L (FORMAT binary)', i.type, 'FOLDER/value');
			END IF;
			RETURN 'taken';
		EXCEPTION WHEN OTHERS THEN
			IF SQLSTATE !~ '^(22|54|0A)' THEN
				INSERT INTO problem VALUES ('input', i.type, i.bytes, SQLSTATE || ' ' || SQLERRM);
			END IF;
			RETURN SQLSTATE;
		END $$;

	-- Whether a statement is true for each row; it may fail with errors of these classes only.
	CREATE FUNCTION expect(what text, type text, input bytea, sql text, v anyelement, w anyelement, errors text DEFAULT '^$') RETURNS void LANGUAGE plpgsql AS $$
		DECLARE
			is_true bool;
		BEGIN
			EXECUTE sql USING v, w INTO is_true;
			IF is_true IS NOT TRUE THEN
				INSERT INTO problem VALUES (what, type, input, format('%s with %s', v, w));
			END IF;
		EXCEPTION WHEN OTHERS THEN
			IF SQLSTATE !~ errors THEN
				INSERT INTO problem VALUES (what, type, input, SQLSTATE || ' ' || SQLERRM || format(': %s with %s', v, w));
			END IF;
		END $$;
} =~ s/FOLDER/$folder/gr;

# What must be true of v, and of v and w, as TYPE. same() compares bytes.
my %laws = (
	'comes back as text' => 'same($1::text::TYPE, $1)',
	'is equal to itself' => '$1 = $1 AND NOT $1 <> $1 AND $1 <= $1 AND NOT $1 < $1 AND ($1 = $2) = same($1, $2)',
	'has one hash' => 'dcounter.crdt_hash($1) = dcounter.crdt_hash($1::text::TYPE) AND dcounter.crdt_hash_extended($1, 5) = dcounter.crdt_hash_extended($1::text::TYPE, 5)',
	'merging is idempotent' => 'same(dc_merge($1, $1), $1) AND same(dc_merge($1, dc_merge($1, $2)), dc_merge($1, $2))',
	'merging commutes' => 'same(dc_merge($1, $2), dc_merge($2, $1))',
	'merging grows' => '$1 <= dc_merge($1, $2) AND $2 <= dc_merge($1, $2)',
	'merging is associative' => 'same(dc_merge(dc_merge($1, $2), X), dc_merge($1, dc_merge($2, X)))',
	'what is merged comes back' => 'same(dc_merge($1, $2)::text::TYPE, dc_merge($1, $2)) AND comes_back(dc_merge($1, $2))',
	'one order' => '($1 <= $2 AND $2 <= $1) = ($1 = $2)',
	'aggregate' => 'same((SELECT dc_merge_agg(x) FROM unnest(ARRAY[$1, NULL, $2, $1]) x), dc_merge($1, $2))',
	'has JSON' => 'jsonb_typeof($1::jsonb) IS NOT NULL');
my %lattice_laws = (
	'order by merging' => '($1 <= $2) = same(dc_merge($1, $2), $2) AND ($1 && $2) = NOT ($1 <= $2 OR $2 <= $1)',
	'delta' => 'same(dc_merge($1, dc_delta($2, $1)), dc_merge($1, $2)) AND same(dc_delta($2, $1)::text::TYPE, dc_delta($2, $1)) AND comes_back(dc_delta($2, $1))',
	'no news' => 'same(dc_merge(X, dc_delta($1, $1)), X)');
my $amounts = q{(SELECT count(*) > 0 AND bool_and(node <> '') FROM dc_values(dc_add($1, 1, 'n')))};
my $grown = 'same(CHANGED::text::TYPE, CHANGED) AND comes_back(CHANGED) AND $1 <= CHANGED';
my %functions = (
	dc_gcounter => [ $amounts, 'dc_value($1) >= 0', map { $grown =~ s/CHANGED/$_/gr } q{dc_add($1, 3, 'm')} ],
	dc_vclock => [ $amounts, map { $grown =~ s/CHANGED/$_/gr } q{dc_add($1, 3, 'm')} ],
	dc_pncounter => [ $amounts, 'dc_value($1) IS NOT NULL', 'dc_value(dc_reset($1)) = 0', map { $grown =~ s/CHANGED/$_/gr } q{dc_add($1, 3, 'm')}, q{dc_add($1, -3, 'm')}, 'dc_reset($1)' ],
	dc_gset => [ 'dc_value($1) = ARRAY(SELECT dc_values($1))', '(SELECT coalesce(bool_and(dc_contains($1, e)), true) FROM dc_values($1) e)', map { $grown =~ s/CHANGED/$_/gr } q{dc_add($1, 'new')} ],
	dc_orset => [ 'dc_value($1) = ARRAY(SELECT dc_values($1))', '(SELECT coalesce(bool_and(dc_contains($1, e) AND NOT dc_contains(dc_remove($1, e), e)), true) FROM dc_values($1) e)',
		q{dc_value(dc_reset($1)) = '{}'}, q{dc_contains(dc_add($1, 'new', 'n'), 'new')},
		map { $grown =~ s/CHANGED/$_/gr } q{dc_add($1, 'new', 'n')}, q{dc_remove($1, coalesce((dc_value($1))[1], ''))}, 'dc_reset($1)' ],
	dc_mvreg => [ 'dc_value($1) = ARRAY(SELECT dc_values($1))', q{dc_value(dc_set_as($1, '{"new": 1}', 'n')) = '{"{\"new\": 1}"}'}, q{dc_value(dc_reset($1)) = '{}'},
		map { $grown =~ s/CHANGED/$_/gr } q{dc_set_as($1, '5', 'n')}, 'dc_set($1, $1::jsonb)', 'dc_reset($1)' ],
	dc_lww => [ q{(dc_value($1) IS NULL) = ($1::jsonb = '{}') AND (dc_stamp($1) IS NULL) = ($1::jsonb = '{}')}, q{dc_stamp($1) IS NULL OR dc_hlc_time(dc_stamp($1)) >= 'epoch' AND dc_hlc_node(dc_stamp($1)) <> ''},
		'dc_stamp($1) IS NULL OR dc_stamp(dc_merge($1, $2)) = coalesce(greatest(dc_stamp($1), dc_stamp($2)))', q{$1 < dc_set_as($1, '5', 'n')} ],
	dc_hlc => [ q{dc_hlc_time($1) >= 'epoch' AND dc_hlc_node($1) <> ''}, '($1 < $2) = ($2 > $1) AND ($1 <= $2) = ($2 >= $1) AND ($1 < $2)::int + ($1 = $2)::int + ($1 > $2)::int = 1',
		'dc_merge($1, $2) = greatest($1, $2)', 'dc_hlc_after($1) > $1' ]);

sub prepare
{
	my ($database) = @_;

	sql($node, $database, $schema);
	foreach my $type (@types)
	{
		sql($node, $database, qq{
			CREATE TABLE ${type}_taken (id int, v $type);
			CREATE FUNCTION same($type, $type) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT dcounter.crdt_send(\$1) = dcounter.crdt_send(\$2)';
			-- what functions made; binary input must take it
			CREATE TABLE ${type}_sent (v $type);
			CREATE TABLE ${type}_again (LIKE ${type}_sent);
			CREATE FUNCTION comes_back($type) RETURNS bool LANGUAGE plpgsql AS 'BEGIN INSERT INTO ${type}_sent VALUES (\$1); RETURN true; END'});
	}
	return;
}

# What states are made of: SQL of an operation on s, a state of the type
sub operation
{
	my ($type) = @_;
	my $name = q{('{a,b,eu,us-1,é}'::text[])[1 + floor(random() * 5)]};
	my $number = '(10 ^ (random() * 18))::bigint';
	my $value = q{(ARRAY['1', '"a"', 'null', '[1, {"b": 2.50}]', '{"x": "y\\\\u0001é"}', 'true']::jsonb[])[1 + floor(random() * 6)]};
	my $element = q{(ARRAY['', 'a', 'apple', 'pear', 'two words', 'quote"s', E'new\nline', 'é'])[1 + floor(random() * 8)]};
	my %operations = (
		dc_gcounter => [ "dc_add(s, $number, $name)" ],
		dc_vclock => [ "dc_add(s, 1, $name)" ],
		dc_pncounter => [ "dc_add(s, $number, $name)", "dc_add(s, -$number, $name)", 'dc_reset(s)' ],
		dc_gset => [ "dc_add(s, $element)" ],
		dc_orset => [ ("dc_add(s, $element, $name)") x 3, "dc_remove(s, $element)", "dc_merge(dc_delta(dc_add(dc_add(s, $element, $name), $element, $name), dc_add(s, $element, $name)), dc_add(s, $element, $name))" ],
		dc_mvreg => [ ("dc_set_as(s, $value, $name)") x 2, "dc_merge(dc_set_as(s, $value, $name), dc_set_as(s, $value, $name))", "dc_delta(dc_set_as(dc_set_as(s, $value, $name), $value, $name), s)" ],
		dc_lww => [ "jsonb_build_object('value', $value, 'time', $number % 253402300799999999, 'node', $name)::text::dc_lww" ],
		dc_hlc => [ "jsonb_build_object('time', $number % 253402300799999999, 'node', $name)::text::dc_hlc" ]);
	my @operations = @{ $operations{$type} };

	return $operations[ rand(@operations) ];
}

# states(DATABASE, TYPE): [text, bytes] each of some that operations made
sub states
{
	my ($database, $type) = @_;
	my $empty = $type eq 'dc_hlc' ? q{'{"time": 0, "node": "a"}'::dc_hlc} : "$type()";
	my $sql = sprintf("SELECT setseed(%f);\n", rand());
	my @states;

	for (1 .. 24)
	{
		my $state = $empty;

		$state = '(SELECT ' . operation($type) . " FROM (SELECT $state AS s OFFSET 0) AS o)" for 1 .. int(rand(8));
		$sql .= "SELECT convert_to(s::text, getdatabaseencoding()), dcounter.crdt_send(s) FROM (SELECT $state AS s OFFSET 0) AS o;\n";
	}
	local $ENV{PGCLIENTENCODING} = 'UTF8' if $database ne 'SQL_ASCII';
	foreach my $line (split /\n/, sql($node, $database, $sql))
	{
		push @states, [ map { pack('H*', $_) } $line =~ /^\\x([0-9a-f]+)\|\\x([0-9a-f]+)$/ ] if $line =~ /\|/;
	}
	return @states;
}

sub hex_of
{
	return unpack('H*', $_[0]);
}

# load(DATABASE, [type, is_text, bytes]...): to the table of inputs
sub load
{
	my ($database, @inputs) = @_;
	my $id = 0;
	my $file = file_of("input_$database", join('', map { join("\t", ++$id, $_->[0], $_->[1] ? 't' : 'f', '\\\\x' . hex_of($_->[2])) . "\n" } @inputs));

	sql($node, $database, "TRUNCATE input; COPY input (id, type, is_text, bytes) FROM '$file'");
	return;
}

# no_problems(DATABASE, NAME): a test
sub no_problems
{
	my ($database, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $problems = sql($node, $database, q{SELECT count(*), min(format('%s %s %s %s', what, type, encode(input, 'escape'), left(said, 500))) FROM problem});

	is($problems, '0|', $name) or diag(sql($node, $database, q{SELECT DISTINCT ON (what, type) format('%s %s %s %s', what, type, encode(input, 'escape'), left(said, 300)) FROM problem}));
	sql($node, $database, 'TRUNCATE problem');
	return;
}

sub check_laws
{
	my ($session, $type) = @_;
	my $lattice = $type ne 'dc_hlc';
	my $third = $type eq 'dc_hlc' ? q{'{"time": 5, "node": "eu"}'::dc_hlc} : "(SELECT v FROM ${type}_taken ORDER BY id LIMIT 1)";
	my %all = (%laws, $lattice ? %lattice_laws : (), map { ("function $_" => $functions{$type}[$_]) } 0 .. $#{ $functions{$type} });

	foreach my $what (sort keys %all)
	{
		my $sql = 'SELECT ' . $all{$what} =~ s/TYPE/$type/gr =~ s/\bX\b/$third/gr;
		# values and amounts at the end of their range
		my $errors = $what =~ /function/ ? '^(22003|22023)' : '^$';

		$session->run(qq{
			SELECT expect('$what', '$type', i.bytes, \$sql\$$sql\$sql\$, v, w, '$errors')
			FROM (SELECT id, v, lead(v, n, v) OVER (ORDER BY id) AS w FROM ${type}_taken, (SELECT 1 + floor(random() * 5)::int AS n) AS r) AS t JOIN input i USING (id)});
	}
	return;
}

# check_soft_errors(SESSION, ENCODING): invalid input is refused without an error
sub check_soft_errors
{
	my ($session, $encoding) = @_;

  SKIP:
	{
		skip "PostgreSQL $major has no soft errors", 1 if $major < 16;
		# except for what is too deep for the stack, and too long for any jsonb
		is($session->run(q{
			SELECT count(*), min(type || ' ' || state || ' ' || encode(bytes, 'escape'))
			FROM (SELECT type, bytes, state, convert_from(bytes, getdatabaseencoding()) AS text FROM input WHERE is_text AND state !~ '^(54|22021)') AS i
			WHERE pg_input_is_valid(text, type) IS DISTINCT FROM (state = 'taken') OR state <> 'taken' AND (SELECT sql_error_code FROM pg_input_error_info(text, type)) IS DISTINCT FROM state}),
			'0|', "$encoding: what is refused is refused softly");
	}
	return;
}

# hostile(): [type, is_text, bytes] of what is small, and says that it is large, or would be
sub hostile
{
	my @hostile;
	my @sizes = map { varint($_) } 2**26, 2**30, 2**31 - 1, 2**31, 2**32, 2**62, 9223372036854775807;
	my $name = "\x01a";

	# a number in the place of each
	my %numbers = (
		dc_gcounter => [ "\x11", "\x11\x01", "\x11\x01$name" ],
		dc_pncounter => [ "\x21", "\x21\x01", "\x21\x01$name\x01\x01\x01" ],
		dc_gset => [ "\x31", "\x31\x01", "\x31\x02$name" ],
		dc_orset => [ "\x41", "\x41\x01", "\x41\x01$name", "\x41\x01$name\x01", "\x41\x01$name\x01\x00", "\x41\x01$name\x01\x00\x05", "\x41\x01$name\x01\x00\x05\x01", "\x41\x01$name\x01\x00\x05\x01$name", "\x41\x01$name\x01\x00\x05\x01$name\x01", "\x41\x01$name\x01\x00\x05\x01$name\x01\x00" ],
		dc_lww => [ "\x51", "\x51\x05", "\x51\x05$name" ],
		dc_mvreg => [ "\x61", "\x61\x01", "\x61\x01$name\x01\x00\x05", "\x61\x01$name\x01\x00\x05\x01", "\x61\x01$name\x01\x00\x05\x011", "\x61\x01$name\x01\x00\x05\x01\x011" ],
		dc_hlc => [ "\x71", "\x71\x05" ],
		dc_vclock => [ "\x81", "\x81\x01", "\x81\x01$name" ]);
	foreach my $type (@types)
	{
		foreach my $start (@{ $numbers{$type} })
		{
			push @hostile, map { ([ $type, 0, "$start$_" ], [ $type, 0, "$start$_$name" . "\x01" x 20 ]) } @sizes;
		}
		push @hostile, map { [ $type, 1, $_ ] } '[' x 100_000, '{"a":' x 100_000, '{"a":1e131071}', '[[' . '1,' x 100_000 . '1]]';
	}
	# numbers that are short, but not when they are printed
	my $number = '1e131071';
	my @values = map { qq({"value": [$number, $_], "dots": {"a": [$_]}}) } 1 .. 2000;

	push @hostile,
	  [ 'dc_lww', 1, qq({"time": 5, "node": "a", "value": [$number]}) ],
	  [ 'dc_lww', 1, '{"time": 5, "node": "a", "value": [' . join(',', ($number) x 8000) . ']}' ],
	  [ 'dc_lww', 0, "\x51\x05$name" . string('[' . join(', ', ($number) x 100_000) . ']') ],
	  [ 'dc_mvreg', 1, '{"values": [' . join(',', @values) . '], "seen": {"a": 2000}}' ],
	  [ 'dc_mvreg', 0, "\x61\x01$name\x01\x00\x05\x01" . string('[' . join(', ', ($number) x 100_000) . ']') . "\x01\x00\x05" ];
	return @hostile;
}

sub string
{
	return varint(length $_[0]) . $_[0];
}

# Many small values, in binary and as text
sub many
{
	my $n = 60_000;
	my @values = sort map { "\"$_\"" } 100_000 .. 100_000 + $n - 1;
	my $dots = 0;

	return ([ 'dc_mvreg', 0, "\x61\x01\x01a\x01\x00" . varint($n - 1) . varint($n) . join('', map { string($_) . "\x01\x00" . varint(++$dots) } @values) ],
		[ 'dc_mvreg', 1, '{"values": [' . join(',', map { qq({"value":$values[$_],"dots":{"a":[@{[ $_ + 1 ]}]}}) } 0 .. $n - 1) . qq(], "seen": {"a": $n}}) ]);
}

# grows_less(SQL, MB, NAME [, REFERENCE]): a test whether a statement takes no more memory than
# that; how much it takes goes to the reference
sub grows_less
{
	my ($sql, $most, $name, $taken) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $session = dc_session($node, 'utf8');
	my $pid = $session->run('SELECT pg_backend_pid()');

	$session->run(q{SET client_min_messages = error; SELECT take((0, 'dc_lww', true, '{"time": 5, "node": "a", "value": 1}', '')::input); SELECT dc_stamp(dc_merge_agg(v)), count(v::text) FROM dc_lww_taken WHERE id = 0});
	my $before = peak_memory($pid);
	my $said = $session->run($sql);
	my $grown = defined $before ? peak_memory($pid) - $before : 0;

	cmp_ok($grown, '<', $most, $name);
	note(sprintf('%s: %.1f MB', $name, $grown));
	$$taken = $grown if defined $taken;
	$session->quit;
	return $said;
}

sub check_memory
{
  SKIP:
	{
		skip 'the memory of a process is not known here', 1 if !defined peak_memory($$);
		my @hostile = hostile();

		load('utf8', @hostile);
		is(grows_less('DO $$BEGIN UPDATE input AS i SET state = take(i); END$$', 100, 'what says that it is large takes no memory'), '', 'all was tried');
		no_problems('utf8', 'and is refused as input');
		is(sql($node, 'utf8', q{SELECT count(*), max(octet_length(bytes)) < 100 FROM input WHERE state = 'taken'}), '15|t', 'but for some large numbers');
		load('utf8', many());
		is(grows_less('SELECT string_agg(take(i), $$ $$) FROM input i WHERE NOT is_text', 100, 'many small values as bytes'), 'taken', 'they are taken');
		# as text they take what JSON takes, and little more
		my $jsonb;

		is(grows_less(q{SELECT min(jsonb_typeof(convert_from(bytes, 'UTF8')::jsonb)) FROM input i WHERE is_text}, 500, 'many small values as jsonb', \$jsonb), 'object', 'they are jsonb');
		is(grows_less('SELECT string_agg(take(i), $$ $$) FROM input i WHERE is_text', 1.2 * $jsonb + 10, 'many small values as text'), 'taken', 'they are taken');
		is(grows_less('SELECT count(*), bool_and(cardinality(dc_value(v)) = 60000) FROM dc_mvreg_taken WHERE id IN (1, 2) AND length(v::text) > 1e6', 60, 'reading them'), '2|t', 'they are there');

		# values that are compressed
		sql($node, 'utf8', q{
			CREATE TABLE large AS SELECT i, dc_add(dc_add(dc_gset(), repeat('x', 1000000)), i::text) AS s, format('{"value": "%s", "time": %s, "node": "a"}', repeat('x', 1000000), i)::dc_lww AS r
			FROM generate_series(1, 200) AS i});
		foreach my $sql ('CREATE INDEX ON large USING hash (s)', 'CREATE INDEX ON large USING hash (r)', 'SELECT count(*) FROM (SELECT DISTINCT s FROM large) AS d',
			'SELECT length(dc_merge_agg(s)::text) FROM large', 'SELECT dc_stamp(dc_merge_agg(r)) FROM large', 'SELECT count(*) FROM large a JOIN large b USING (s)',
			'SELECT max(length(m::text)) FROM (SELECT dc_merge_agg(r) OVER (ORDER BY i ROWS 3 PRECEDING) AS m FROM large) AS w', 'SELECT bool_or(s <= dc_gset() OR s && dc_gset() OR r < dc_lww()) FROM large')
		{
			unlike(grows_less($sql, 60, $sql), qr/ERROR/, 'is done');
		}
	}
	return;
}

# A state as large as can be, of what takes most as jsonb: its text is read again, as after a dump.
sub check_largest
{
	my $first = varint(9 * 10**18);
	my $ranges = int((10_000_000 - 10 - length $first) / 2);

	load('utf8', [ 'dc_orset', 0, "\x41\x01\x01a" . varint($ranges + 1) . $first . "\x00" . "\x01\x00" x $ranges . "\x00" ]);
	is(sql($node, 'utf8', 'SELECT take(i) FROM input i'), 'taken', 'a state of 10 MB');
	is(sql($node, 'utf8', 'SELECT octet_length(dcounter.crdt_send(v)) > 9999990, v::text::dc_orset = v FROM dc_orset_taken ORDER BY octet_length(dcounter.crdt_send(v)) DESC LIMIT 1'),
		't|t', 'its text is read again');
	return;
}

foreach my $encoding (sort { $encodings{$b} <=> $encodings{$a} } keys %encodings)
{
	my $n = int($each * $encodings{$encoding});
	my @inputs;

	sql($node, 'postgres', "CREATE DATABASE $encoding ENCODING '$encoding' LOCALE 'C' TEMPLATE template0");
	prepare(lc $encoding);
	foreach my $type (@types)
	{
		my @states = states(lc $encoding, $type);

		is(scalar @states, 24, "$encoding: states of $type");
		push @inputs, map { ([ $type, 1, $_->[0] ], [ $type, 0, $_->[1] ]) } @states;
		push @inputs, map { ([ $type, 1, mutate_json($states[ rand @states ][0]) ], [ $type, 0, mutate_bytes($states[ rand @states ][1]) ]) } 1 .. $n;
	}
	load(lc $encoding, @inputs);

	my $session = dc_session($node, lc $encoding);
	my $pid = $session->run('SELECT pg_backend_pid()');

	$session->run('SET statement_timeout = 0; SET client_min_messages = error');
	is($session->run('DO $$BEGIN UPDATE input AS i SET state = take(i); END$$'), '', "$encoding: the inputs were tried");
	no_problems(lc $encoding, "$encoding: what is refused is refused as input");
	foreach my $form ('is_text', 'NOT is_text')
	{
		my $share = sql($node, lc $encoding, "SELECT string_agg(type || ' ' || taken, ', ') FILTER (WHERE taken NOT BETWEEN 0.04 AND 0.96) FROM
			(SELECT type, round(avg((state = 'taken')::int), 2) AS taken FROM input WHERE $form GROUP BY type) AS s");

		is($share, '', "$encoding, $form: some are taken, and some refused");
	}
	note("$encoding: " . sql($node, lc $encoding, q{SELECT string_agg(format('%s %s: %s', n, state, example), ', ' ORDER BY n DESC) FROM (SELECT state, count(*) AS n, min(type) AS example FROM input GROUP BY 1) AS s}));

	foreach my $type (@types)
	{
		check_laws($session, $type);
		# as binary
		$session->run(qq{
			INSERT INTO ${type}_sent SELECT v FROM ${type}_taken;
			COPY ${type}_sent TO '$folder/sent' (FORMAT binary);
			COPY ${type}_again FROM '$folder/sent' (FORMAT binary);
			INSERT INTO problem SELECT 'comes back', '$type', dcounter.crdt_send(s.v), format('%s as %s', s.v, a.v)
			FROM (SELECT row_number() OVER (), v FROM ${type}_sent) AS s FULL JOIN (SELECT row_number() OVER (), v FROM ${type}_again) AS a USING (row_number)
			WHERE same(s.v, a.v) IS NOT TRUE});
	}
	no_problems(lc $encoding, "$encoding: what is taken comes back, obeys the laws, and functions work on it");
	check_soft_errors($session, $encoding);
	$session->quit;
}

check_memory();
check_largest();

done_testing();
