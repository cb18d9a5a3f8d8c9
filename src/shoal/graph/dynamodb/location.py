"""The URL of a DynamoDB table."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from shoal.core.errors import InvalidInput
from shoal.graph.reaching import read_authorities

SPREAD = 8
"""In so many parts the index is cut, for its throughput: one part takes 1,000 writes a second."""
_LARGEST_SPREAD = 64


class TableLocation(NamedTuple):
    """The place and the options of a table, as its URL gives them."""

    table: str
    region: str | None
    endpoint: str | None
    spread: int
    cafile: str | None = None
    """A file in PEM with the certificates that are trusted in place of those of the system."""


def parse(url: str) -> TableLocation:
    """`dynamodb://table?region=...&endpoint=...&spread=...&cafile=...`; only the table must be named. Raises `InvalidInput`."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    if (
        parts.scheme != "dynamodb"
        or not parts.netloc
        or parts.path.strip("/")
        or options.keys() - TableLocation._fields
    ):
        raise InvalidInput("a table's URL is dynamodb://table?region=...&endpoint=...&spread=...&cafile=...")
    spread = options.get("spread", str(SPREAD))
    if not spread.isdecimal() or not 1 <= int(spread) <= _LARGEST_SPREAD:
        raise InvalidInput(f"spread is a number from 1 to {_LARGEST_SPREAD}")
    # Not `hostname`, which is in lower case: tables' names are not.
    cafile = options.get("cafile")
    if cafile is not None:
        read_authorities(cafile, "store")
    return TableLocation(parts.netloc, options.get("region"), options.get("endpoint"), int(spread), cafile)
