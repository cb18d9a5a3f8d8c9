# Prints the buckets of the lower-case names on standard input, one line of comma-separated numbers for each name:
# three letters, two sums, range, server, a, b, c, store. Arguments: members per range, servers, stores of the 64 data sources.
use strict;
use warnings;
use Digest::MD5 qw(md5);

my ($size, $servers, @stores) = ($ARGV[0], $ARGV[1], split /,/, $ARGV[2]);
my $alphabet = join '', 0 .. 9, 'a' .. 'z', '_';
my $number = 0;
while (defined(my $name = <STDIN>)) {
    chomp $name;
    (my $characters = $name) =~ s/[\x80-\xBF]//g;
    my @letters = map { $_ < length $characters ? index($alphabet, substr($characters, $_, 1)) : -1 } 0 .. 2;
    my $sum = unpack '%32C*', $name;
    my $rest = $sum - (length $name ? ord $name : 0);
    my $range = int($number++ / $size);
    my ($first, $second, $third) = unpack 'C3', md5($name);
    my $source = $first % 64;
    print join(',', @letters, $sum % 31, $rest % 33, $range, $range % $servers, $source, $second % 64, $third % 128, $stores[$source]), "\n";
}
