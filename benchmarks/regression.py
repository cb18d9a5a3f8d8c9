"""Compare the fraction of the limit that each path reaches in quick runs with those recorded for the last release.

`python -m benchmarks.regression` is `make bench-check`: it exits with 1 if a path is more than a tenth further from its limit in
the best of up to three runs. `--keep` is `make bench-ratios`, for a release: it stores the median of three in docs/ratios.json;
with `--new`, only for paths that have none. A busy machine is refused unless `--busy` is given.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks.__main__ import measured
from benchmarks.limits import LIMITS, MOST_WORSE, paths
from benchmarks.measure import QUICK, REPOSITORY, print_table
from benchmarks.results import Machine, commit, machine, today

RATIOS = REPOSITORY / "docs" / "ratios.json"
_RUNS = 3


class Ratios(msgspec.Struct, frozen=True):
    """Fraction of its limit that each path reached, by name."""

    machine: Machine
    day: str
    commit: str
    shares: dict[str, float]


def load(path: Path = RATIOS) -> Ratios:
    return msgspec.json.decode(path.read_bytes(), type=Ratios)


def worse(kept: Mapping[str, float], found: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the paths that were worse than the stored ratios by more than the tolerance in each run, and those that
    were not measured.
    """
    return [path for path, share in kept.items() if max(found.get(path, [0.0])) < share * (1 - MOST_WORSE)]


def benchmarks_of(names: Iterable[str]) -> list[str]:
    """Return the benchmarks that measure these paths, without duplicates."""
    wanted = set(names)
    return list(dict.fromkeys(limit.benchmark for limit in LIMITS if limit.path in wanted))


def _measure(found: dict[str, list[float]], names: Iterable[str], *, busy: bool) -> None:
    for benchmark in benchmarks_of(names):
        for path in paths(measured(benchmark, QUICK, None, busy=busy)):
            found[path.limit.path].append(path.share)


def _show(kept: Mapping[str, float], found: Mapping[str, Sequence[float]]) -> None:
    rows = []
    for limit in LIMITS:
        shares = found.get(limit.path, ())
        before = kept.get(limit.path)
        change = f"{max(shares) / before - 1:+.0%}" if before and shares else ""
        told = " ".join(f"{share:.3f}" for share in shares)
        rows.append((limit.path, "" if before is None else f"{before:.3f}", told, change))
    print("\nShares of the limit")
    print_table(("path", "kept", "found", "best bare engine"), rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--keep", action="store_true", help="save the median of three runs in docs/ratios.json")
    options.add_argument(
        "--new", action="store_true", help="with --keep: only of paths that are not in docs/ratios.json"
    )
    options.add_argument("--busy", action="store_true", help="measure even if other processes use the machine")
    chosen = options.parse_args()
    everything = [limit.path for limit in LIMITS]
    found: dict[str, list[float]] = defaultdict(list)
    if chosen.keep:
        kept = load() if chosen.new else Ratios(machine(), today(), commit(), {})
        wanted = [path for path in everything if path not in kept.shares]
        for _ in range(_RUNS):
            _measure(found, wanted, busy=chosen.busy)
        shares = kept.shares | {path: round(statistics.median(found[path]), 4) for path in wanted}
        encoded = msgspec.json.encode(msgspec.structs.replace(kept, shares=shares))
        RATIOS.write_bytes(msgspec.json.format(encoded, indent=1) + b"\n")
        _show({}, found)
        return
    if not RATIOS.exists():
        raise SystemExit("no release has saved its ratios yet: run make bench-ratios")
    shares = load().shares
    left = everything
    for _ in range(_RUNS):
        _measure(found, left, busy=chosen.busy)
        left = worse(shares, found)
        if not left:
            break
    _show(shares, found)
    for path in left:
        print(f"  {path}: more than {MOST_WORSE:.0%} further from its limit than {load().commit} was")
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
