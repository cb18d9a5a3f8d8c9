"""The schemes in scripting languages: run the programs of `programs/` on the names of the conformance file, and compare.

A program is plain code without dependencies. All programs run at the same time, once per process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shoal.core.placement_conformance import NAMES
from shoal_study.map_schemes import even_map, owners_of
from shoal_study.name_schemes import AsciiSum, Letters, Md5Levels
from shoal_study.names import batch_of

PROGRAMS = Path(__file__).parent / "programs"
RANGE, SERVERS, STORES = 7, 5, 20
"""The mapping scheme and the map of the programs' runs."""
COLUMNS: Mapping[str, slice] = {
    "letters": slice(0, 3),
    "ascii-sum": slice(3, 5),
    "mapping": slice(5, 7),
    "md5": slice(7, 10),
    "shoal": slice(10, 11),
}
"""The columns of each scheme in the output of a program."""
_SECONDS = 60


class Language(NamedTuple):
    name: str
    commands: Sequence[str]
    """Executables, the first of which that exists is used."""
    program: str
    environment: Sequence[tuple[str, str]] = ()


LANGUAGES = (
    Language("Perl", ("perl",), "place.pl"),
    Language("PHP", ("php",), "place.php"),
    Language("JavaScript", ("node",), "place.mjs"),
    Language("Ruby", ("ruby",), "place.rb"),
    Language("Lua", ("lua", "lua5.4", "lua5.3"), "place.lua"),
    Language("awk", ("awk",), "place.awk"),
)
PLATFORMS = (
    Language("Python in the C locale", (sys.executable,), "place.py", (("PYTHONHASHSEED", "1"),)),
    Language("Python in UTF-8 mode", (sys.executable,), "place.py", (("PYTHONHASHSEED", "2"), ("PYTHONUTF8", "1"))),
)
"""Two Python processes with different hash seeds and locales."""
Rows = Sequence[Sequence[int]]


def expected() -> Rows:
    """Return the placements of the names in the conformance file, computed by the study's own code."""
    names = [name.lower() for name in NAMES]
    batch = batch_of(names)
    ranges = np.arange(len(names)) // RANGE
    hashed = Md5Levels().place(batch)
    stores = owners_of(even_map(STORES))[hashed[0]]
    columns = [*Letters().place(batch), *AsciiSum().place(batch), ranges, ranges % SERVERS, *hashed, stores]
    return [tuple(map(int, row)) for row in np.array(columns).T]


def agreeing(languages: Sequence[Language]) -> dict[str, dict[str, int]]:
    return {name: dict(found) for name, found in _compared(tuple(languages), PROGRAMS)}


@cache
def _compared(languages: Sequence[Language], programs: Path) -> Sequence[tuple[str, Sequence[tuple[str, int]]]]:
    given, right = "".join(f"{name.lower()}\n" for name in NAMES).encode(), expected()
    running = [(each.name, process) for each in languages if (process := _started(each, programs)) is not None]
    found: list[tuple[str, Sequence[tuple[str, int]]]] = []
    for name, process in running:
        try:
            output, _ = process.communicate(given, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        rows = [line.split(",") for line in output.decode("utf-8", "replace").splitlines()]
        found.append((name, [(key, _right_rows(rows, right, columns)) for key, columns in COLUMNS.items()]))
    return found


def _right_rows(rows: Sequence[Sequence[str]], right: Rows, columns: slice) -> int:
    if len(rows) != len(right):
        return 0
    return sum(row[columns] == [str(each) for each in target[columns]] for row, target in zip(rows, right, strict=True))


def _started(language: Language, programs: Path) -> subprocess.Popen[bytes] | None:
    command = next((found for each in language.commands if (found := shutil.which(each))), None)
    if command is None:
        return None
    stores = ",".join(map(str, owners_of(even_map(STORES)).tolist()))
    program = str(programs / language.program)
    arguments = [command, program, str(RANGE), str(SERVERS), stores]
    if language.name == "awk":
        variables = (f"size={RANGE}", f"servers={SERVERS}", f"stores={stores}")
        arguments = [command, *(part for each in variables for part in ("-v", each)), "-f", program]
    environment = {**os.environ, "LC_ALL": "C", **dict(language.environment)}
    return subprocess.Popen(  # noqa: S603  # an interpreter and a program of this package
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
