"""Nathan Boeger, "Methods for scaling a large member base" (arXiv, 20 February 2006): which graph shows what, and where it errs.

The text that could be read while this was written ends in the first section of the paper. So its printed figures (members, means,
deviations, sizes of ranges) and the wording of its seven constraints are not here, and nothing stands in for them: a table says
`NOT_LEGIBLE` there. Known from notes on the whole paper are the schemes, their moduli, the names of the graphs, and two errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import md5
from typing import NamedTuple

from shoal.core.placement import SHARDS_PER_SOURCE, place
from shoal.study.results import Erratum
from shoal.study.schemes.contract import Loads

TITLE = "Nathan Boeger, Methods for scaling a large member base, 2006"
NOT_LEGIBLE = "not legible in the copy we have"


class PaperGraph(NamedTuple):
    """One of the eight graphs."""

    scheme: str
    level: int
    """From 0."""
    shows: str


GRAPHS: Mapping[str, PaperGraph] = {
    "D1": PaperGraph("letters", 0, "members by the first letter"),
    "D2": PaperGraph("letters", 1, "members by the second letter"),
    "D3": PaperGraph("letters", 2, "members by the third letter"),
    "N1": PaperGraph("ascii-sum", 0, "members by the sum of the letters mod 31"),
    "N2": PaperGraph("ascii-sum", 1, "members by the sum without the first letter mod 33"),
    "M1": PaperGraph("md5", 0, "members by the first two digits of the digest mod 64"),
    "M2": PaperGraph("md5", 1, "members by the next two digits mod 64"),
    "M3": PaperGraph("md5", 2, "members by the two digits after these mod 128"),
}
"""Their order and their buckets follow from the schemes: three levels of letters, two of sums, three of MD5."""


class Printed(NamedTuple):
    """Figures that the paper prints with a graph; None where they could not be read."""

    members: int | None = None
    mean: float | None = None
    deviation: float | None = None


PRINTED: Mapping[str, Printed] = {graph: Printed() for graph in GRAPHS}

_PRINTED_DIGEST = "d268c8fe7f154537c2c9ed60a0b8f2fd"
_SAID_TO_BE_OF = "frunk"
_REALLY_OF = "frank\n"


def errata(third_level: Loads | None) -> list[Erratum]:
    """Return the errors with their proofs, carried out now. `third_level` are the members of the 128 buckets of M3, if counted."""
    found = [_digest()]
    if third_level is not None:
        found.append(_modulus(third_level))
    return found


def _digest() -> Erratum:
    digest, other = (md5(name.encode(), usedforsecurity=False).hexdigest() for name in (_SAID_TO_BE_OF, _REALLY_OF))
    right, wrong = place(_SAID_TO_BE_OF), place(_REALLY_OF)
    return Erratum(
        f'It prints {_PRINTED_DIGEST} as MD5("{_SAID_TO_BE_OF}"): that is the digest of "frank" with a line break behind it.',
        f'MD5("{_SAID_TO_BE_OF}") is {digest}, MD5("frank\\n") is {other}. Who trusts the printed one looks for the member in '
        f"{'/'.join(map(str, wrong))}, not in {'/'.join(map(str, right))}.",
        other == _PRINTED_DIGEST != digest,
    )


def _modulus(loads: Loads) -> Erratum:
    upper = int(loads.members[64:].sum())
    total = int(loads.members.sum())
    return Erratum(
        "Its last list says mod 64 for the third level; its text and its graph M3 have 128.",
        f"mod {SHARDS_PER_SOURCE} puts {upper:,} of {total:,} members into buckets 64 to 127, which a graph of 128 buckets shows. "
        f"With mod 64 these {SHARDS_PER_SOURCE - 64} buckets would be empty, and there would be 262,144 directories, not 524,288.",
        upper > 0,
    )
