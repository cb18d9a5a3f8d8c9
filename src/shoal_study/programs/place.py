"""Prints the buckets of the lower-case names on standard input, one line of comma-separated numbers for each name.

The numbers are: three letters, two sums, range, server, a, b, c, store.
Arguments: members per range, servers, stores of the 64 data sources.
"""

from __future__ import annotations

import sys
from hashlib import md5

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz_"


def main() -> None:
    size, servers, stores = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(",")
    for number, line in enumerate(sys.stdin.buffer):
        name = line.removesuffix(b"\n")
        letters = [ALPHABET.find(character) for character in name.decode()[:3]]
        letters += [-1] * (3 - len(letters))
        first, second, third = md5(name, usedforsecurity=False).digest()[:3]
        hashed = (first % 64, second % 64, third % 128, stores[first % 64])
        sums = (sum(name) % 31, sum(name[1:]) % 33)
        row = (*letters, *sums, number // size, number // size % servers, *hashed)
        sys.stdout.write(",".join(map(str, row)) + "\n")


if __name__ == "__main__":
    main()
