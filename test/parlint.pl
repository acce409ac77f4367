#!/usr/bin/env perl
# What test/lint.sh checks of the PARALLEL labels in sql/parts, by the sources: it prints what is wrong, and nothing else. It
# runs in the top folder, and needs no server.
#
# The leader of a parallel plan executes functions that are PARALLEL RESTRICTED, and its workers those that are SAFE; in both
# GetLatestSnapshot() and UpdateActiveSnapshotCommandId() raise XX000. So no call of these may be reached from such a function, but by way of
# one that looks at IsInParallelMode(). Calls through pointers are not followed.
use strict;
use warnings;

my (%body, %extern);

sub slurp
{
	my ($file) = @_;

	open my $handle, '<', $file or die "$file: $!\n";
	local $/ = undef;
	return scalar <$handle>;
}

# Functions by "file:name", and where those that are not static are
foreach my $file (glob 'src/*/*.c src/*/*/*.c src/*/*/*/*.c')
{
	my $text = slurp($file);

	while ($text =~ /^((?:\w[^\n;{}=]*\n)?)(\w+)\([^;{}]*?\)\n\{\n(.*?)^\}/gms)
	{
		my ($type, $name, $code) = ($1, $2, $3);

		$code =~ s{/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"}{}gs;
		$body{"$file:$name"} = $code;
		$extern{$name} = "$file:$name" if $type !~ /\bstatic\b/;
	}
}

# path_to_snapshot(FUNCTION): the functions by which it gets to one, or nothing
sub path_to_snapshot
{
	my @paths = ([ $_[0] ]);
	my %seen = ($_[0] => 1);

	while (my $path = shift @paths)
	{
		my $code = $body{ $path->[-1] };
		my $file = $path->[-1] =~ s/:.*//r;

		next if $code =~ /\bIsInParallelMode\(\)/;
		return @$path if $code =~ /\b(?:GetLatestSnapshot|UpdateActiveSnapshotCommandId)\(/;
		foreach my $name ($code =~ /\b(\w+)\(/g)
		{
			my $next = $body{"$file:$name"} ? "$file:$name" : $extern{$name};

			push @paths, [ @$path, $next ] if $next && !$seen{$next}++;
		}
	}
	return;
}

foreach my $part (sort glob 'sql/parts/*.sql')
{
	my $text = slurp($part);

	while ($text =~ /^CREATE (?:OR REPLACE )?FUNCTION (?:\w+\.)?(\w+)\((.*?);$/gms)
	{
		my ($name, $rest) = ($1, $2);
		my $symbol = $rest =~ /'MODULE_PATHNAME', '(\w+)'/ ? $1 : $name;
		my @path = $rest !~ /PARALLEL UNSAFE/ && $extern{$symbol} ? path_to_snapshot($extern{$symbol}) : ();

		print "$part: $name is not PARALLEL UNSAFE, but takes a snapshot: ", join(' calls ', @path), "\n" if @path;
	}
}
