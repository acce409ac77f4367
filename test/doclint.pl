#!/usr/bin/env perl
# What test/lint.sh checks of README.md and doc/*.md: doclint.pl reference|blocks|links|pages|phrases|widths prints what
# is wrong, and nothing else. It runs in the top folder, and needs no server.
#
# reference: doc/reference.md has every function, procedure, aggregate, view, type and operator that
# sql/parts makes for users, every setting, and every SQLSTATE that the sources raise; and nothing
# else. A signature stands there as `name(argument type = default, ...)`. The names and the defaults of its arguments
# must be those of an overload; a type may be left out, and `a or b` stands for several overloads.
# Text that goes with anyelement is not said. Arguments without a name are their types.
#
# blocks: each block is of a kind that a test runs, is text, or says in a comment just before it why it is not run:
# <!-- not run: it needs a broker -->, or which test does run it: <!-- run by test/t/limit/limit_example.pl -->. Blocks of
# plain text that look like SQL or shell need that as well. A block after <!-- from examples/node/shop.js --> stands in that file, which a
# test runs: each part of it between empty lines as it is.
#
# links: what links point to is there, files and #headings.
#
# pages: the first page of each product has its box "You need" within 25 lines, a block within 30, a table of at most 12 functions, and at most 1,500 words. A
# page that begins with the name of another, as bound-operation.md, is linked from it. README.md has at most 1,000 words.
#
# widths: lines of prose have at most 100 characters, or one word or `code` after their indentation. Tables and blocks may be wider, and
# so is what make bench writes.
#
# phrases: no page, outside of blocks, has one of the phrases in test/phrases. README.md has the words that people search for.
use strict;
use warnings;

my %checks = (reference => \&reference, blocks => \&blocks, links => \&links, pages => \&first_pages, phrases => \&phrases, widths => \&widths);
my @pages = grep { -e } 'README.md', sort glob('doc/*.md examples/*.md');
my $page = 'doc/reference.md';

($checks{ $ARGV[0] // '' } || die "usage: doclint.pl reference|blocks|links|pages|phrases|widths\n")->();

sub slurp
{
	my ($file) = @_;

	open my $handle, '<', $file or die "$file: $!\n";
	local $/;
	return scalar <$handle>;
}

# fences(TEXT): the same without what is in blocks; lines stay
sub fences
{
	my ($text) = @_;
	my ($fence, @out);

	foreach (split /\n/, $text)
	{
		if (defined $fence)
		{
			undef $fence if /^\s*(`{3,}|~{3,})\s*$/ && index($1, $fence) == 0;
			push @out, '';
		}
		elsif (/^\s*(`{3,}|~{3,})/)
		{
			$fence = $1;
			push @out, '';
		}
		else
		{
			push @out, $_;
		}
	}
	return join "\n", @out, '';
}

##
## The reference

# listed(TEXT): its parts between commas that are in no parentheses or quotes
sub listed
{
	my ($text) = @_;
	my ($depth, $quoted, @parts) = (0, 0, '');

	foreach (split //, $text)
	{
		$quoted = !$quoted if $_ eq "'";
		$depth += $_ eq '(' ? 1 : $_ eq ')' ? -1 : 0 if !$quoted;
		if ($_ eq ',' && !$depth && !$quoted) { push @parts, '' }
		else { $parts[-1] .= $_ }
	}
	return grep { length } map { s/^\s+|\s+$//gr } @parts;
}

# argument(TEXT): name, types and default of an argument; as SQL has it, or the reference
sub argument
{
	my ($text) = @_;
	my ($what, $default) = split / DEFAULT | = /, $text =~ s/"//gr, 2;

	$default =~ s/::\w+(?:\[\])?$// if defined $default;
	$what =~ s/^INOUT //;
	my ($name, $types) = $what =~ /^(?!dc_)(\w+)(?: (.*))?$/ ? ($1, $2) : ('', $what);
	my @types = map { s/^integer/int/r } split / or /, $types // '';
	return { name => $name, types => \@types, default => $default };
}

# shape(ARGUMENTS): what overloads have in common that differ in types only
sub shape
{
	return join ', ', map { $_->{name} . (defined $_->{default} ? " = $_->{default}" : '') } @_;
}

# calls(KIND, TEXT): [ name, text in the parentheses, rest of the statement ] of the CREATE statements
sub calls
{
	my ($kind, $text) = @_;
	my @found;

	while ($text =~ /^CREATE (?:$kind) (dc_\w+)\s*(\((?:[^()']|'[^']*'|\((?:[^()]|\([^()]*\))*\))*\))([^;]*);/mg)
	{
		my ($name, $arguments, $rest) = ($1, $2, $3);

		push @found, [ $name, $arguments =~ s/^\(|\)$//gr =~ s/\s+/ /gr, $rest ];
	}
	return @found;
}

sub reference
{
	my $sources = join "\n", map { slurp($_) } sort glob('sql/parts/*.sql');
	my $text = slurp($page);
	my (%there, %views, %types);

	$sources =~ s/^--.*$//mg;
	foreach my $call (calls('FUNCTION|PROCEDURE|AGGREGATE', $sources))
	{
		my ($name, $arguments) = @$call;
		my @arguments = map { argument($_) } grep { !/^OUT / } listed($arguments);

		push @{ $there{$name}{ shape(@arguments) } }, \@arguments;
	}
	my $created = () = $sources =~ /^CREATE (?:FUNCTION|PROCEDURE|AGGREGATE) dc_/mg;
	my $understood = 0;
	$understood += @$_ foreach map { values %$_ } values %there;
	print "only $understood of $created functions in sql/parts were understood\n" if $created != $understood;

	signatures($text, \%there);
	$views{$1} = 1 while $sources =~ /^CREATE VIEW (dc_\w+)/mg;
	$types{$1} = 1 while $sources =~ /^CREATE TYPE (dc_\w+)/mg;
	names($text, 'Views', 'view', \%views);
	names($text, 'Types and operators', 'type', \%types);
	operators($text, $sources);
	mentions($text, { %there, %views, %types });
	settings($text);
	errors($text);
	return;
}

# section(TEXT, TITLE): its lines
sub section
{
	my ($text, $title) = @_;

	return $text =~ /^## \Q$title\E\n(.*?)(?=^## |\z)/ms ? split /\n/, $1 : ();
}

# cells(LINE): of a row of a table
sub cells
{
	my ($line) = @_;

	return map { s/^\s+|\s+$//gr } split /(?<!\\)\|/, $line =~ s/^\|//r;
}

sub signatures
{
	my ($text, $there) = @_;
	my %seen;

	foreach my $row (grep { /^\| `/ } split /\n/, $text)
	{
		my ($first) = cells($row);

		while ($first =~ /`(?:CALL )?(dc_\w+)\(([^`]*)\)`/g)
		{
			my ($name, $arguments) = ($1, $2);
			my @arguments = map { argument($_) } listed($arguments);
			my $shape = shape(@arguments);
			my $overloads = $there->{$name}{$shape};

			# the name of a type with its modifier, not of a function
			next if $row =~ /^\| `\Q$name\E`, /;
			print "$page: there is no $name($arguments)\n" and next if !$overloads;
			$seen{$name}{$shape}{$_} = 1 foreach kinds($page, $name, $overloads, @arguments);
		}
	}
	foreach my $name (sort keys %$there)
	{
		foreach my $shape (sort keys %{ $there->{$name} })
		{
			foreach my $overload (@{ $there->{$name}{$shape} })
			{
				print "$page has no $name(", join(', ', map { "$_->{name} @{$_->{types}}" . (defined $_->{default} ? " = $_->{default}" : '') } @$overload), ")\n"
				  if !grep { covers($seen{$name}{$shape}{$_} && $_, $overload) } keys %{ $seen{$name}{$shape} // {} };
			}
		}
	}
	return;
}

# kinds(...): the types that a signature stands for, in one string for each argument: "a|b, c". All of them must exist
sub kinds
{
	my ($file, $name, $overloads, @arguments) = @_;

	foreach my $n (0 .. $#arguments)
	{
		foreach my $type (@{ $arguments[$n]{types} })
		{
			print "$file: $name has no argument $arguments[$n]{name} of type $type\n"
			  if !grep { $_->[$n]{types}[0] eq $type } @$overloads;
		}
	}
	return join ', ', map { join '|', @{ $_->{types} } } @arguments;
}

# covers(KINDS, OVERLOAD): whether they stand for it
sub covers
{
	my ($kinds, $overload) = @_;
	my @kinds = split /, /, $kinds, -1;

	foreach my $n (0 .. $#$overload)
	{
		my ($type) = @{ $overload->[$n]{types} };
		my %listed = map { $_ => 1 } split /\|/, $kinds[$n] // '';

		$listed{text} = 1 if $listed{anyelement};
		return 0 if %listed && !$listed{$type};
	}
	return 1;
}

# names(TEXT, SECTION, KIND, THERE): the first column of a section's table
sub names
{
	my ($text, $section, $kind, $there) = @_;
	my %seen;

	foreach my $row (grep { /^\| `/ } section($text, $section))
	{
		$seen{ (cells($row))[0] =~ /`(dc_\w+)/ ? $1 : '' } = 1;
	}
	print "$page has no $kind $_\n" foreach grep { !$seen{$_} } sort keys %$there;
	print "$page: there is no $kind $_\n" foreach grep { !$there->{$_} } sort keys %seen;
	return;
}

sub operators
{
	my ($text, $sources) = @_;
	my (%there, %seen);

	while ($sources =~ /^CREATE OPERATOR (?!CLASS)(\S+) \((.*?)\);/msg)
	{
		my ($operator, $what) = ($1, $2);

		$there{"$operator $1"} = 1 if $what =~ /RIGHTARG = (\w+)/;
	}
	$there{"index $2 $1"} = 1 while $sources =~ /^CREATE OPERATOR CLASS \w+ DEFAULT FOR TYPE (\w+) USING (\w+)/mg;
	foreach my $row (grep { /^\| `dc_/ } section($text, 'Types and operators'))
	{
		my ($type, $operators, $indexes) = cells($row);

		($type) = $type =~ /`(\w+)/;
		$operators =~ s/&#124;/|/g;
		$seen{"$_ $type"} = 1 foreach $operators =~ m{(?:`|<code>)(.+?)(?:`|</code>)}g;
		$seen{"index $_ $type"} = 1 foreach $indexes =~ /\w+/g;
	}
	print "$page has no operator $_\n" foreach grep { !$seen{$_} } sort keys %there;
	print "$page: there is no operator $_\n" foreach grep { !$there{$_} } sort keys %seen;
	return;
}

# mentions(TEXT, THERE): no page speaks of something that does not exist; columns and programs have no such name
sub mentions
{
	my ($text, $there) = @_;

	# doc/internals.md names functions of C
	foreach my $file (grep { $_ ne 'doc/internals.md' } @pages)
	{
		my $page = fences(slurp($file));

		while ($page =~ /`(?:CALL )?(dc_[a-z0-9_]+)\b(?![^`]*\.[ch]\b)/g)
		{
			print "$file: there is no $1\n" if !$there->{$1} && $1 !~ /^dc_(?:relay|region)$|_$|_ops$/;
		}
	}
	return;
}

sub settings
{
	my ($text) = @_;
	my $sources = join "\n", map { slurp($_) } 'src/base/guc.c', 'src/types/crdt/hlcclock.c';
	my (%there, %seen);
	my %unit = (B => 1 / 1024, kB => 1, MB => 1024, GB => 1024**2, us => 0.001, ms => 1, s => 1000, min => 60000, h => 3600000, d => 86400000);
	my $per = { KB => 1, MB => 1024, MS => 1, S => 1000 };

	# a default as the sources have it, in kB or ms
	while ($sources =~ /\{"(dcounter\.\w+)",.*?&(\w+),[^&]*?(?:GUC_UNIT_(\w+)|0)?\}/sg)
	{
		my ($name, $variable, $unit) = ($1, $2, $3);
		my ($value) = $sources =~ /^\w+ \Q$variable\E = (.*?);/m;

		$value = $value eq 'true' ? 'on' : $value eq 'false' ? 'off' : eval($value) * ($unit ? $per->{$unit} : 1);
		$there{$name} = $value;
	}
	$there{$1} //= undef while $sources =~ /DefineCustom\w+Variable\("(dcounter\.\w+)"/g;
	foreach my $row (grep { /^\| `dcounter\./ } section($text, 'Settings'))
	{
		my ($names, $default) = cells($row);

		foreach my $name ($names =~ /`(dcounter\.\w+)`/g)
		{
			$seen{$name} = 1;
			print "$page: there is no setting $name\n" and next if !exists $there{$name};
			next if !defined $there{$name};
			my $value = $default =~ /^(-?[\d.]+)\s*([a-zA-Z]+)$/ ? $1 * $unit{$2} : $default;
			print "$page: the default of $name is not $default\n" if $value ne $there{$name} && "$value" ne "$there{$name}";
		}
	}
	print "$page has no setting $_\n" foreach grep { !$seen{$_} } sort keys %there;
	return;
}

sub errors
{
	my ($text) = @_;
	my %name; # by SQLSTATE's macro
	my %there;
	# raised by the server for dcounter, or by what it calls
	my %theirs = map { $_ => 1 } '25006', '40001', '42703', '57014';

	foreach my $header (glob('/usr/include/postgresql/*/server/utils/errcodes.h'))
	{
		my $source = slurp($header);

		while ($source =~ /^#define (ERRCODE_\w+) MAKE_SQLSTATE\((.*)\)/mg)
		{
			my ($macro, $state) = ($1, $2);

			$name{$macro} = join '', $state =~ /\w/g;
		}
		last;
	}
	return if !%name;
	foreach my $file (split /\n/, `find src -name '*.[ch]'`)
	{
		my $source = slurp($file);

		while ($source =~ /^#define (ERRCODE_\w+) MAKE_SQLSTATE\((.*)\)/mg)
		{
			my ($macro, $state) = ($1, $2);

			$name{$macro} = join '', $state =~ /\w/g;
		}
		$there{$1} //= $file while $source =~ /errcode\((ERRCODE_\w+)\)/g;
	}
	my %states = map { ($name{$_} // $_) => $there{$_} } keys %there;
	my %seen;
	foreach my $row (grep { /^\| [0-9A-Z]{5}/ } section($text, 'Errors'))
	{
		$seen{$_} = 1 foreach (cells($row))[0] =~ /\b[0-9A-Z]{5}\b/g;
	}
	print "$page has no error $_ ($states{$_})\n" foreach grep { !$seen{$_} } sort keys %states;
	print "$page: nothing raises $_\n" foreach grep { !$states{$_} && !$theirs{$_} } sort keys %seen;
	return;
}

##
## Blocks and links

sub blocks
{
	my $tests = join "\n", map { slurp($_) } glob('test/t/*/*.pl test/perl/*.pm');

	foreach my $file (@pages)
	{
		my ($n, $fence, $before, $why, @block) = (0, undef, '');
		my $name = $file =~ s{.*/}{}r;

		foreach my $line (split /\n/, slurp($file))
		{
			$n++;
			if (defined $fence)
			{
				if ($line =~ /^\s*(`{3,}|~{3,})\s*$/ && index($1, $fence) == 0)
				{
					print "$file:$block[0]: $why\n" if $why = unrun($block[1], $block[2], $block[3], $name, $tests);
					undef $fence;
				}
				else
				{
					$block[2] .= "$line\n";
				}
			}
			elsif ($line =~ /^\s*(`{3,}|~{3,})\s*(.*?)\s*$/)
			{
				$fence = $1;
				@block = ($n, $2, '', $before);
			}
			$before = $line if !defined $fence && $line =~ /\S/;
		}
	}
	return;
}

# unrun(MARK, TEXT, BEFORE, NAME, TESTS): what is wrong with a block, or nothing
sub unrun
{
	my ($mark, $text, $before, $name, $tests) = @_;
	my $reason = $before =~ /^<!-- not run: \S.* -->$/;

	return "a block that is run needs no reason why not" if $reason && $mark =~ /^sql(?! on)\b/;
	while ($before =~ m{(test/t/\w+/\w+\.pl)}g)
	{
		return "there is no $1" if !-e $1;
	}
	return $tests =~ /\Q$name\E/ ? undef : "no test names $name" if $before =~ m{^<!-- run by test/t/\w+/\w+\.pl -->$};
	return copied($1, $text, $tests) if $before =~ m{^<!-- from (examples/\S+) -->$};
	return if $reason;
	return if $mark =~ /^sql( preload)?( error)?$/;
	if ($mark =~ /^(sql|sh) on \w+$/)
	{
		return $tests =~ /\Q$name\E/ ? undef : "no test names $name, which has blocks for several servers";
	}
	return "a block of \"$mark\" is not run by a test: say why, in <!-- not run: ... -->" if $mark ne 'text';
	return 'a block of text that looks like SQL or shell: let a test run it, or say why not, in <!-- not run: ... -->'
	  if $text =~ /^\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|ALTER|DROP|CALL|GRANT|REVOKE|BEGIN;|TRUNCATE|SET [a-z]|DO \$|make|psql|pg_\w+ -|dc_relay|dc_region [a-z]|sudo|apt|\$ |CHECK_ONLY|BENCH)\b/m;
	return;
}

# copied(FILE, TEXT, TESTS): what is wrong with a block that is taken from a file of examples/, or nothing. Its parts stand there in this
# order, at any depth.
sub copied
{
	my ($file, $text, $tests) = @_;

	return "there is no $file" if !-e $file;
	my ($folder) = $file =~ m{^examples/(\w+)};
	return "no test names $folder" if $tests !~ m{example\('\Q$folder\E\b};
	my $there = join "\n", '', map { s/^\s+//r } split(/\n/, slurp($file)), '';
	my $from = 0;
	foreach my $part (split /\n\s*\n/, $text)
	{
		my $at = index $there, join("\n", '', map({ s/^\s+//r } split /\n/, $part), ''), $from;

		return "$file does not have, there:\n$part" if $at < 0;
		$from = $at + 1;
	}
	return undef;
}

# anchors(TEXT): the names that headings get on the page
sub anchors
{
	my ($text) = @_;
	my (%count, %anchors);

	foreach (grep { /^#{1,6} / } split /\n/, fences($text))
	{
		my $anchor = lc s/^#+ +//r;

		$anchor =~ s/\[([^\]]*)\]\([^)]*\)/$1/g;
		$anchor =~ s/[^\w\- ]//g;
		$anchor =~ s/ /-/g;
		$anchors{ $anchor . ($count{$anchor} ? "-$count{$anchor}" : '') } = 1;
		$count{$anchor}++;
	}
	return \%anchors;
}

sub links
{
	foreach my $file (@pages, 'CONTRIBUTING.md', glob('src/*/README.md src/*/*/README.md bin/README.md bin/*/README.md'))
	{
		my $text = fences(slurp($file));
		my ($folder) = $file =~ m{^(.*/)};

		$folder //= '';
		foreach my $line (split /\n/, $text)
		{
			$line =~ s/`[^`]*`//g;
			while ($line =~ /\]\(([^)\s]+)\)/g)
			{
				my ($target, $anchor) = split /#/, $1, 2;
				my $path = $target eq '' ? $file : "$folder$target";

				next if $target =~ /^\w+:/;
				1 while $path =~ s{[^/]+/\.\./}{};
				print "$file: $path does not exist\n" and next if !-e $path;
				print "$file: $path has no heading #$anchor\n" if defined $anchor && !anchors(slurp($path))->{$anchor};
			}
		}
	}
	return;
}

##
## Style

my @products;

BEGIN
{
	@products = qw(counters stock once ledger bound rollups buffer limits presence unread windows trending distinct time lite hll cms topk crdt outbox relay live regions);
}

sub first_pages
{
	foreach my $product (@products)
	{
		my $file = "doc/$product.md";
		my $text = slurp($file);
		my @lines = split /\n/, $text;
		my ($functions) = $text =~ /^\| (?:function|command) \|.*\n\|.*\n((?:\|.*\n)+)/m;
		my $rows = () = ($functions // '') =~ /^\|/mg;
		my $words = () = $text =~ /\S+/g;

		print "$file: no box **You need** within 25 lines\n" if !grep { /^> \*\*You need\*\*/ } @lines[ 0 .. 24 ];
		print "$file: no example within 30 lines\n" if !grep { /^```/ } @lines[ 0 .. 29 ];
		print "$file: a table of $rows functions, more than 12\n" if $rows > 12;
		print "$file: $words words, more than 1500\n" if $words > 1500;
		foreach my $part (glob("doc/$product-*.md"))
		{
			my $name = $part =~ s{^doc/}{}r;

			print "$file has no link to $name\n" if $text !~ /\]\(\Q$name\E[#)]/;
		}
	}
	my $words = () = slurp('README.md') =~ /[^\s|]*\w[^\s|]*/g;
	print "README.md: $words words, more than 1000\n" if $words > 1000;
	return;
}

sub phrases
{
	my @phrases = grep { /\S/ && !/^#/ } split /\n/, slurp('test/phrases');
	my $readme = slurp('README.md');

	foreach my $file (@pages)
	{
		my $n = 0;

		foreach my $line (split /\n/, fences(slurp($file)))
		{
			$n++;
			$line =~ s/`[^`]*`//g;
			foreach my $phrase (@phrases)
			{
				print "$file:$n: \"$1\"\n" if $line =~ /($phrase)/i;
			}
		}
	}
	foreach my $word ('sharded counter', 'hot row', 'HyperLogLog', 'Count-Min', 'top-k', 'CRDT', 'idempotent', 'inventory', 'reservation', 'rate limit', 'sliding window', 'presence', 'outbox',
		'CDC', 'active-active', 'multi-region', 'Citus', 'PgBouncer', 'Docker', 'Kubernetes')
	{
		print "README.md does not say \"$word\"\n" if $readme !~ /\Q$word\E/i;
	}
	return;
}

sub widths
{
	foreach my $file (grep { $_ ne 'doc/benchmarks.md' } @pages, 'CONTRIBUTING.md', 'SECURITY.md', glob('{src,bin}/{*/,*/*/,*/*/*/}README.md'))
	{
		my $n = 0;

		foreach my $line (split /\n/, fences(slurp($file)))
		{
			$n++;
			utf8::decode($line);
			print "$file:$n: ", length $line, " characters\n" if length $line > 100 && $line !~ /^(?:\||<|!\[)/ && $line !~ /^\s*\W*(?:`[^`]*`\W*|\S+)$/;
		}
	}
	return;
}
