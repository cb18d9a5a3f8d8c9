<?php
// Prints the buckets of the lower-case names on standard input, one line of comma-separated numbers for each name:
// three letters, two sums, range, server, a, b, c, store. Arguments: members per range, servers, stores of the 64 data sources.
[, $size, $servers, $stores] = $argv;
$stores = explode(',', $stores);
$alphabet = '0123456789abcdefghijklmnopqrstuvwxyz_';
for ($number = 0; ($line = fgets(STDIN)) !== false; $number++) {
    $name = rtrim($line, "\n");
    $characters = preg_replace('/[\x80-\xBF]/', '', $name);
    $found = [];
    for ($at = 0; $at < 3; $at++) {
        $place = $at < strlen($characters) ? strpos($alphabet, $characters[$at]) : false;
        $found[] = $place === false ? -1 : $place;
    }
    $bytes = $name === '' ? [0] : array_values(unpack('C*', $name));
    $range = intdiv($number, (int) $size);
    [$first, $second, $third] = array_values(unpack('C3', md5($name, true)));
    array_push($found, array_sum($bytes) % 31, array_sum(array_slice($bytes, 1)) % 33, $range, $range % $servers);
    array_push($found, $first % 64, $second % 64, $third % 128, $stores[$first % 64]);
    echo implode(',', $found), "\n";
}
