"""Placement of members: the MD5 scheme of Boeger, "Methods for scaling a large member base" (2006).

From the hex digest of the lower-case user name in UTF-8: `a` (digits 0-1, mod 64) selects one of 64 data sources, `b` (digits
2-3, mod 64) and `c` (digits 4-5, mod 128) two more directory levels. `a/b/c` makes 524,288 directories; the user name at the end
makes the path unique. `a` and `c` together are the 13-bit logical shard in every id of the member.
"""

from __future__ import annotations

from hashlib import md5
from typing import NamedTuple

DATA_SOURCES = 64
SHARDS_PER_SOURCE = 128
SHARDS = DATA_SOURCES * SHARDS_PER_SOURCE


class Placement(NamedTuple):
    """The three numbers derived from a name that determine its shard: `a` in 0..63, `b` in 0..63, `c` in 0..127."""

    a: int
    b: int
    c: int

    @property
    def shard(self) -> int:
        return self.a * SHARDS_PER_SOURCE + self.c


def place(name: str) -> Placement:
    # MD5 only distributes the names evenly; it protects nothing.
    first, second, third = md5(name.lower().encode(), usedforsecurity=False).digest()[:3]
    return Placement(first % DATA_SOURCES, second % 64, third % SHARDS_PER_SOURCE)


def media_path(user_name: str) -> str:
    """Return the member's directory in the media store, `a/b/c/<user_name>`, without a slash at either end."""
    a, b, c = place(user_name)
    return f"{a}/{b}/{c}/{user_name.lower()}"


def source_of(shard: int) -> int:
    return shard // SHARDS_PER_SOURCE
