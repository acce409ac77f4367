#!/usr/bin/env perl
# What test/lint.sh checks of the messages in src and bin: an error about one of our own objects that is not there, or is of another
# kind, says in a HINT how it is made or listed. Prints those that do not, and nothing else. It runs in the top folder, and
# needs no server.
#
# Objects of the server have no hint, as in the server's own errors; nor has what cannot be made by one statement, which then
# needs a DETAIL.
#
# Messages, descriptions of settings and comments in SQL have none of the phrases in test/phrases either.
use strict;
use warnings;

open my $list, '<', 'test/phrases' or die "test/phrases: $!\n";
my @phrases = grep { /\S/ && !/^#/ } map { s/\n//r } <$list>;
close $list;

my $ours = qr/counter table|stock|ledger|windowed counter|distinct table|unread table|limit|presence|consumer|hold|mark|source|region/;
my $missing = qr/does not exist|is not known|is not (?:bound to )?an? (?:$ours)|is not attached|has no mark/;
my $servers = qr/^(?:role|relation|column|subscription|trigger) /;

foreach my $file (sort glob('{src,bin}/{*/,*/*/,*/*/*/}*.c sql/parts/*.sql lite/parts/*.sql'))
{
	open my $handle, '<', $file or die "$file: $!\n";
	local $/ = undef;
	my $text = <$handle>;
	my $quoted = $file =~ /\.sql$/ ? qr/\bIS '((?:''|[^'])*)'/ : qr/"((?:\\.|[^"\\\n])*)"/;

	while ($text =~ /$quoted/g)
	{
		my ($said, $begin) = ($1, $-[0]);

		foreach my $phrase (grep { $said =~ /$_/i } @phrases)
		{
			print "$file:", 1 + (substr($text, 0, $begin) =~ tr/\n//), ": \"$said\" has /$phrase/\n" if $said =~ / / && $said !~ / unnest\(/;
		}
	}

	while ($text =~ /\bereport\(/g)
	{
		my ($begin, $depth) = ($-[0], 0);
		my $call = substr $text, $begin;

		while ($call =~ /"(?:\\.|[^"\\])*"|([()])/g)
		{
			next if !defined $1;
			$depth += $1 eq '(' ? 1 : -1;
			next if $depth > 0;
			$call = substr $call, 0, pos $call;
			last;
		}
		next if $call =~ /errhint|_hint\(|errdetail/ || $call !~ /errmsg\("((?:\\.|[^"\\])*)"/;
		my $message = $1;
		next if $message !~ $missing || $message =~ $servers;
		my $line = 1 + (substr($text, 0, $begin) =~ tr/\n//);
		print "$file:$line: \"$message\" has no hint\n";
	}
}
