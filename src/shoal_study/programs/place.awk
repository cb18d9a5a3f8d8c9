# Prints the buckets of the lower-case names on standard input, one line of comma-separated numbers for each name:
# three letters, two sums, range, server, a, b, c, store. Variables: size (members per range), servers, stores (of the 64 data
# sources). Set LC_ALL=C. awk has no MD5, so md5sum computes the digests.
BEGIN {
    for (byte = 1; byte < 256; byte++) value[sprintf("%c", byte)] = byte
    split(stores, store_of, ",")
    alphabet = "0123456789abcdefghijklmnopqrstuvwxyz_"
}
function two(digits) {
    return 16 * index("123456789abcdef", substr(digits, 1, 1)) + index("123456789abcdef", substr(digits, 2, 1))
}
function letter(at) {
    return at <= length(characters) ? index(alphabet, substr(characters, at, 1)) - 1 : -1
}
{
    characters = $0
    gsub(/[\200-\277]/, "", characters)
    sum = 0
    for (at = 1; at <= length($0); at++) sum += value[substr($0, at, 1)]
    rest = sum - value[substr($0, 1, 1)]
    range = int((NR - 1) / size)
    quoted = $0
    gsub(/'/, "'\\''", quoted)
    command = "printf %s '" quoted "' | md5sum"
    command | getline digest
    close(command)
    source = two(digest) % 64
    print letter(1) "," letter(2) "," letter(3) "," sum % 31 "," rest % 33 "," range "," range % servers "," source "," \
        two(substr(digest, 3)) % 64 "," two(substr(digest, 5)) % 128 "," store_of[source + 1]
}
