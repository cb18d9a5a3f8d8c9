"""The 2006 paper: its graphs with the printed figures, a comparison with measured ones, and its errors with their proofs.

Nathan Boeger, "Methods for scaling a large member base", February 16, 2006. A graph of a level below the first shows the
directories of all levels down to it: N2 has 31 x 33 buckets, M3 has 64 x 64 x 128.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import md5
from math import sqrt
from typing import NamedTuple

import numpy as np

from shoal.core.placement import SHARDS_PER_SOURCE, place
from shoal_study.counting import LevelCount
from shoal_study.map_schemes import members_by_server
from shoal_study.name_schemes import CHARACTERS, Loads
from shoal_study.statistics import Erratum, PaperComparison, SchemeFigures

TITLE = "Nathan Boeger, Methods for scaling a large member base, 2006"
NAMES = 1_188_968
"""User names of Fotolog on April 2, 2005, the list of all graphs."""


class Printed(NamedTuple):
    """The figures that the paper prints for one of its graphs; None where it prints none. Approximate figures are also text."""

    mean: float | None = None
    deviation: float | None = None
    stated_ratio: float | None = None
    """Deviation divided by mean, for a graph with a ratio only."""
    mean_text: str = ""
    ratio_text: str = ""
    fullest: int | None = None
    """Members of the fullest bucket, stated for D3 only."""

    @property
    def ratio(self) -> float:
        if self.stated_ratio is not None:
            return self.stated_ratio
        if self.mean is None or self.deviation is None:
            raise ValueError("without `stated_ratio`, a ratio needs `mean` and `deviation`")
        return self.deviation / self.mean


class PaperGraph(NamedTuple):
    scheme: str
    levels: int
    """Levels of directories down to the buckets of the graph."""
    shows: str
    printed: Printed


GRAPHS: Mapping[str, PaperGraph] = {
    "D1": PaperGraph("letters", 1, "members by the first letter", Printed(35_651, 30_504)),
    "D2": PaperGraph("letters", 2, "members by the first two letters", Printed(stated_ratio=4, ratio_text="almost 4")),
    "D3": PaperGraph(
        "letters",
        3,
        "members by the first three letters",
        Printed(stated_ratio=10, ratio_text="nearly 10", fullest=25_000),
    ),
    "N1": PaperGraph("ascii-sum", 1, "members by the sum of the letters mod 31", Printed(38_353.80, 228.88)),
    "N2": PaperGraph(
        "ascii-sum", 2, "members by that sum and the sum without the first letter mod 33", Printed(1_162.24, 102.76)
    ),
    "M1": PaperGraph(
        "md5",
        1,
        "members by the first two digits of the digest mod 64",
        Printed(18_000, stated_ratio=0.007, mean_text="~18,000", ratio_text="0.007"),
    ),
    "M2": PaperGraph("md5", 2, "members by these and the next two digits mod 64", Printed(290.28, 16.85)),
    "M3": PaperGraph("md5", 3, "members by these and the next two digits mod 128", Printed(2.27, 1.51)),
}


def random_ratio(members: int, buckets: int) -> float:
    """Return the deviation of bucket sizes expected at random, divided by their mean: it shrinks with more members."""
    return sqrt((buckets - 1) / members) if members else 0.0


def comparison(schemes: Mapping[str, SchemeFigures]) -> Iterator[PaperComparison]:
    """Yield the printed and the measured figures of each graph of the paper whose scheme was studied."""
    for name, graph in GRAPHS.items():
        if graph.scheme not in schemes:
            continue
        measured, printed = schemes[graph.scheme].paths[graph.levels - 1], graph.printed
        yield PaperComparison(
            graph=name,
            buckets=measured.buckets,
            paper_mean=printed.mean,
            paper_deviation=printed.deviation,
            paper_ratio=printed.ratio,
            paper_random=random_ratio(NAMES, measured.buckets),
            paper_fullest=printed.fullest,
            mean=measured.mean,
            deviation=measured.deviation,
            ratio=measured.relative,
            random=random_ratio(measured.members, measured.buckets),
            fullest=measured.fullest,
        )


def ratio_text(ratio: float) -> str:
    """Format a ratio with as many digits as the paper's figures support."""
    return f"{ratio:.2f}" if ratio >= 1 else f"{ratio:.4f}"


def comparison_cells(each: PaperComparison) -> tuple[str, ...]:
    """Return a table row: the name of the graph, four figures printed in the paper, and the same four for the studied names."""
    printed = GRAPHS[each.graph].printed
    return (
        each.graph,
        printed.mean_text or _as_printed(printed.mean),
        _as_printed(printed.deviation),
        printed.ratio_text or ratio_text(each.paper_ratio),
        ratio_text(each.paper_random),
        f"{each.mean:,.2f}",
        f"{each.deviation:,.2f}",
        ratio_text(each.ratio),
        ratio_text(each.random),
    )


def _as_printed(figure: float | None) -> str:
    if figure is None:
        return ""
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:,.2f}"


def fullest_text(each: PaperComparison, names: int) -> str:
    """Describe the fullest bucket of a graph, in the paper and for the studied names. Empty if the paper prints none."""
    if each.paper_fullest is None:
        return ""
    return (
        f"{each.graph}'s fullest bucket: almost {each.paper_fullest:,} in the paper ({each.paper_fullest / NAMES:.2%}), "
        f"{each.fullest:,} here ({each.fullest / names:.2%})"
    )


COMPARISON_HEADINGS = ("", *("mean", "std dev", "ratio", "random") * 2)

_PRINTED_DIGEST = "d268c8fe7f154537c2c9ed60a0b8f2fd"
_PRINTED_NAME = "frunk"
_ACTUAL_NAME = "frank\n"


def errata(schemes: Mapping[str, LevelCount], names: int) -> list[Erratum]:
    """Return the errors of the paper, each with a proof that this call computes.

    Args:
        schemes: The counts of the studied schemes. An error that needs the counts of another scheme is left out.
        names: Number of studied names.
    """
    found = [_subdirectories(), _byte_values()]
    letters, sums, hashes = (schemes.get(key) for key in ("letters", "ascii-sum", "md5"))
    found.append(_letter_mean(letters.paths[0] if letters else None, names))
    found.append(_characters())
    if hashes:
        found.append(_modulus(hashes.alone[2]))
    found += [_digest(), _largest_server()]
    if sums:
        found.append(_prime(sums.scheme.levels[1].buckets))
    found.append(_half())
    return found


def _subdirectories() -> Erratum:
    digits = range(256)
    below = {(second % 64, third % SHARDS_PER_SOURCE) for second in digits for third in digits}
    return Erratum(
        "Section 3.3 computes 65 x 128 = 8192 subdirectories of a top-level directory.",
        f"65 x 128 is {65 * 128:,}. All digests together lead to 64 x 128 = {len(below):,} subdirectories.",
        len(below) == 64 * 128 != 65 * 128,
    )


def _byte_values() -> Erratum:
    values = {int(f"{number:02x}", 16) for number in range(16 * 16)}
    return Erratum(
        "Section 3.3 states that the first two characters of a digest yield 255 buckets.",
        f"Two hexadecimal digits have 16 x 16 = {len(values)} values, {min(values)} to {max(values)}.",
        len(values) == 256,
    )


def _letter_mean(loads: Loads | None, names: int) -> Erratum:
    printed = GRAPHS["D1"].printed
    mean = NAMES / len(CHARACTERS)
    here = ""
    if loads is not None:
        counted = loads.members + 0.0
        ratio = float(counted.std() / counted.mean()) if counted.any() else 0.0
        here = f"; {names:,} names have {ratio:.2f} here"
    return Erratum(
        f"Section 2 prints a mean of {printed.mean:,} for graph D1.",
        f"{NAMES:,} names in {len(CHARACTERS)} buckets have a mean of {mean:,.0f}. With it, the ratio of deviation and mean is "
        f"{(printed.deviation or 0) / mean:.2f} instead of {printed.ratio:.2f}{here}.",
        round(mean) == 32_134 != printed.mean,
    )


def _characters() -> Erratum:
    count = len(CHARACTERS)
    return Erratum(
        "Footnotes 5 to 7 map the 37 characters of a user name to the integers 0 - 37.",
        f"{count} characters have the numbers 0 to {count - 1}. 0 to 37 are {len(range(38))} numbers, and modulo 37 the last is "
        f"{37 % 37}, the number of {CHARACTERS[0]!r}.",
        count == 37 and sorted(range(count)) == sorted({number % 37 for number in range(38)}),
    )


def _modulus(loads: Loads) -> Erratum:
    upper = int(loads.members[64:].sum())
    total = int(loads.members.sum())
    return Erratum(
        "The last list of section 3.3 computes the third level mod 64; its text and graph M3 have mod 128.",
        f"mod {SHARDS_PER_SOURCE} places {upper:,} of {total:,} members in buckets 64 to 127. With mod 64 these buckets are empty, "
        f"and there are {64 * 64 * 64:,} directories instead of {64 * 64 * SHARDS_PER_SOURCE:,}.",
        upper > 0,
    )


def _digest() -> Erratum:
    digest, other = (md5(name.encode(), usedforsecurity=False).hexdigest() for name in (_PRINTED_NAME, _ACTUAL_NAME))
    right, wrong = ("/".join(map(str, place(name))) for name in (_PRINTED_NAME, _ACTUAL_NAME))
    return Erratum(
        f'Section 3.3 prints {_PRINTED_DIGEST} as MD5("{_PRINTED_NAME}").',
        f'It is the digest of "frank\\n", frank with a newline, in {wrong}. MD5("{_PRINTED_NAME}") is {digest}, in {right}.',
        other == _PRINTED_DIGEST != digest,
    )


def _largest_server() -> Erratum:
    size, servers = 10_000, 20
    first, printed = (members_by_server(count, size, servers) for count in (1_009_999, 1_049_999))
    lead = first.max() - np.sort(first)[-2]
    more = int((printed > printed.min()).sum())
    return Erratum(
        "Footnote 10 has one of 20 servers 9,999 members ahead of the others at 1,049,999 members.",
        f"With buckets of 10,000, a server is {lead:,} members ahead at 1,009,999. At 1,049,999, {more} servers have more than the "
        "others. The printed number belongs to the previous example, with buckets of 50,000.",
        lead == size - 1 and more > 1,
    )


def _prime(modulus: int) -> Erratum:
    factor = next(number for number in range(2, modulus + 1) if modulus % number == 0)
    return Erratum(
        "Section 3.1 recommends prime numbers of buckets, and has 33 of them in graph N2.",
        f"{modulus} is {factor} x {modulus // factor}.",
        factor < modulus,
    )


def _half() -> Erratum:
    ratio = GRAPHS["M3"].printed.ratio
    return Erratum(
        "Section 3.3 calls the deviation of graph M3 almost half of the mean.",
        f"The printed figures, 1.51 and 2.27, have a ratio of {ratio:.2f}, that of a random distribution of as many names "
        f"({random_ratio(NAMES, 64 * 64 * 128):.2f}).",
        ratio > 0.6,
    )
