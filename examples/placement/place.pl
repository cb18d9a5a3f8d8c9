#!/usr/bin/perl
# Prints the placements of the names on standard input in the format of docs/placement-conformance.csv.
use strict;
use warnings;
use feature 'unicode_strings';
use open qw(:std :encoding(UTF-8));
use Digest::MD5 qw(md5);
use Encode qw(encode);

while (my $name = <STDIN>) {
    chomp $name;
    my $lower = lc $name;
    my ($first, $second, $third) = unpack 'C3', md5(encode('UTF-8', $lower));
    my ($a, $b, $c) = ($first % 64, $second % 64, $third % 128);
    print join(',', $name, $a, $b, $c, $a * 128 + $c, "$a/$b/$c/$lower"), "\n";
}
