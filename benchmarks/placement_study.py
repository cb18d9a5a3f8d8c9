"""The placement study: the real user names by MD5 and by every scheme, and 100 million made-up ones at three levels of MD5.

Each is one run of the command in a separate process, measured from start to exit, and its own figures. The raw engine is the
processor time of a bare loop that only calls hashlib.md5 for each name, in the same run.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from benchmarks.measure import REAL_DATA, REPOSITORY, Report, parser, workplace
from shoal.core.placement import place
from shoal_study.names import generated_batches
from shoal_study.statistics import StudyResult

_REAL = REAL_DATA / "usernames" / "fotolog_usernames.txt.gz"
_MIB = 1 << 20


def real_names(folder: Path, count: int) -> Path:
    """Return a file of `count` real names, or of generated names if the file of real names is absent."""
    path = folder / "names.txt"
    if _REAL.exists():
        with gzip.open(_REAL) as lines:
            names = [name for name, _ in zip(lines, range(count), strict=False)]
        path.write_bytes(b"".join(names))
    else:
        path.write_bytes(b"".join(made_up(count)))
    return path


def made_up(count: int) -> Iterable[bytes]:
    """Return `count` generated names, one per line."""
    for batch in generated_batches(count, 1, lambda _done, _total: None):
        yield from (name + b"\n" for name in batch.encoded())


def studied(*arguments: str) -> tuple[StudyResult, float]:
    """Run the command. Return its figures, and its wall-clock seconds."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "shoal.cli", "placement", "study", "--json", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=StudyResult), time.perf_counter() - began


def real(report: Report, path: Path) -> None:
    """Measure the study of real names: MD5 alone, then all schemes."""
    names = path.read_bytes().split()
    timed(report, path, "MD5", len(names), "--only", "md5")
    result = timed(report, path, "every scheme", len(names))
    md5 = next(scheme for scheme in result.schemes if scheme.key == "md5")
    report.add("real names: largest deviation of an MD5 bucket", 100 * max(each.furthest for each in md5.levels), "%")
    own = Counter(place(name.decode()).a for name in names)
    differing = sum(own[bucket] != count for bucket, count in enumerate(md5.levels[0].counts))
    report.check("real names: buckets that the server's own code fills otherwise", differing, 0)


def timed(report: Report, path: Path, told: str, names: int, *arguments: str) -> StudyResult:
    result, seconds = studied(str(path), *arguments)
    report.add(f"real names, {told}: all of it", seconds, "s")
    report.add(f"real names, {told}: memory", result.peak_bytes / _MIB, "MiB")
    report.check(f"real names, {told}: names counted", result.names, names)
    return result


def generated(report: Report, count: int) -> None:
    """Measure the placement of generated names at three levels."""
    result, seconds = studied("--generated", str(count), "--only", "md5")
    (md5,) = result.schemes
    raw = result.bare_loop.nanoseconds
    report.add("made-up names: all of it", seconds, "s")
    report.add("made-up names: memory", result.peak_bytes / _MIB, "MiB")
    report.add("made-up names: processor time per name", result.processor_seconds / count * 1e9, "ns", raw=raw)
    report.add("made-up names: processor time, its MD5", md5.nanoseconds, "ns", raw=raw)
    report.add("made-up names: names per second", count / seconds, "/s")
    for level in (*md5.levels, md5.paths[2]):
        report.check(f"made-up names: counted at {level.name}", level.members, count)


def main() -> None:
    options = parser(
        __doc__,
        quick={"names": 631_154, "generated": 10_000_000},
        smallest={"names": 20_000, "generated": 200_000},
    )
    options.add_argument("--names", type=int, default=631_154, help="number of real names to read")
    options.add_argument("--generated", type=int, default=100_000_000, help="number of generated names")
    chosen = options.parse_args()
    report = Report("placement_study", chosen.size)
    with workplace(None) as folder:
        real(report, real_names(folder, chosen.names))
    generated(report, chosen.generated)
    report.show()


if __name__ == "__main__":
    main()
