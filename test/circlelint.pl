#!/usr/bin/env perl
# What test/lint.sh checks of circles of files in a room of src (A.c uses a function or a variable of B.c, B.c one of C.c, C.c
# one of A.c): it prints those with more files than the room may have, with what each uses of the others, and nothing else. It
# runs in the top folder. Arguments: ROOM=FILES for each room whose circles may have another number of files than 3 at the most.
use strict;
use warnings;

my %most = map { split /=/ } @ARGV;

sub slurp
{
	my ($file) = @_;

	open my $handle, '<', $file or die "$file: $!\n";
	local $/ = undef;
	my $text = <$handle>;
	$text =~ s{/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"}{}gs;
	return $text;
}

# uses(FILES): for each file, the others of which it uses something, and what. A definition of a function has its name at
# the begin of a line, and its type in the line before.
sub uses
{
	my %text = map { $_ => slurp($_) } @_;
	my (%home, %uses);

	foreach my $file (@_)
	{
		$home{$1} = $file while $text{$file} =~ /^(?!static\b|#)\w[^\n;{}()=]*\n(\w+)\([^;{}]*?\)\n\{/gm;
		$home{$1} = $file while $text{$file} =~ /^(?!static\b|extern\b|typedef\b)\w[\w *]*?[ *](\w+)(?:\[[^\]\n]*\])*(?: =[^\n]*|;)$/gm;
	}
	foreach my $file (@_)
	{
		foreach my $word ($text{$file} =~ /\w+/g)
		{
			$uses{$file}{ $home{$word} }{$word} = 1 if defined $home{$word} && $home{$word} ne $file;
		}
	}
	return \%uses;
}

# reach(USES, FILE): all that FILE uses, by way of others, too
sub reach
{
	my ($uses, $file) = @_;
	my %seen;
	my @todo = keys %{ $uses->{$file} };

	while (defined(my $next = shift @todo))
	{
		push @todo, keys %{ $uses->{$next} } if !$seen{$next}++;
	}
	return \%seen;
}

foreach my $folder (glob 'src/*/ src/*/*/ src/*/*/*/ bin/*/')
{
	my ($room) = $folder =~ m{^(.*)/$};
	my @files = glob "$folder*.c";
	my $uses = uses(@files);
	my %reach = map { $_ => reach($uses, $_) } @files;

	while (@files)
	{
		my $file = shift @files;
		my @circle = ($file, grep { $reach{$file}{$_} && $reach{$_}{$file} } @files);
		my %in = map { $_ => 1 } @circle;

		@files = grep { !$in{$_} } @files;
		next if @circle <= ($most{$room} // 3);
		print "$room: a circle of ", scalar @circle, " files\n";
		foreach my $one (@circle)
		{
			print "    $one uses ", join(' ', sort keys %{ $uses->{$one}{$_} }), " of $_\n"
				foreach grep { $in{$_} } sort keys %{ $uses->{$one} };
		}
	}
}
