<?php
// Prints the placements of the names on standard input in the format of docs/placement-conformance.csv.
while (($line = fgets(STDIN)) !== false) {
    $name = rtrim($line, "\n");
    $lower = mb_strtolower($name, 'UTF-8');
    [$first, $second, $third] = array_values(unpack('C3', md5($lower, true)));
    [$a, $b, $c] = [$first % 64, $second % 64, $third % 128];
    echo implode(',', [$name, $a, $b, $c, $a * 128 + $c, "$a/$b/$c/$lower"]), "\n";
}
