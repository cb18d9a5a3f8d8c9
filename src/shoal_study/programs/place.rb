# Prints the buckets of the lower-case names on standard input, one line of comma-separated numbers for each name:
# three letters, two sums, range, server, a, b, c, store. Arguments: members per range, servers, stores of the 64 data sources.
require 'digest'

size, servers = ARGV[0].to_i, ARGV[1].to_i
stores = ARGV[2].split(',')
alphabet = [*'0'..'9', *'a'..'z', '_']
STDIN.each_line(chomp: true).with_index do |line, number|
  name = line.dup.force_encoding('UTF-8')
  letters = (0..2).map { |at| alphabet.index(name[at]) || -1 }
  sum = name.bytes.sum
  range = number / size
  first, second, third = Digest::MD5.digest(name).bytes
  hashed = [first % 64, second % 64, third % 128, stores[first % 64]]
  puts [*letters, sum % 31, (sum - (name.bytes.first || 0)) % 33, range, range % servers, *hashed].join(',')
end
