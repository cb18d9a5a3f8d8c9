"""A benchmark that did not do what it claims fails, and one without small sizes cannot be written."""

from __future__ import annotations

import subprocess
import sys

import pytest
from benchmarks.measure import FULL, QUICK, SMALLEST, Report, benchmarks, held_bytes, parser, tree, tree_rss
from benchmarks.targets import TARGETS


def test_a_report_with_a_wrong_check_ends_with_status_one() -> None:
    report = Report("of_nothing", SMALLEST)
    report.check("posts that are there", 0, 1_000)
    with pytest.raises(SystemExit) as ended:
        report.show()
    assert ended.value.code == 1


def test_a_report_that_checked_nothing_ends_with_status_one() -> None:
    with pytest.raises(SystemExit) as ended:
        Report("of_nothing", SMALLEST).show()
    assert ended.value.code == 1


def test_a_report_whose_checks_are_right_ends_with_status_zero() -> None:
    report = Report("of_something", SMALLEST)
    report.check("posts that are there", 3, 3)
    with pytest.raises(SystemExit) as ended:
        report.show()
    assert ended.value.code == 0


@pytest.mark.parametrize(
    ("given", "size", "posts", "readers"),
    [
        ([], FULL, 1_000, 50),
        (["--quick"], QUICK, 100, 5),
        (["--smallest"], SMALLEST, 10, 5),
        (["--posts", "7", "--smallest"], SMALLEST, 7, 5),
    ],
)
def test_sizes_are_defaults_that_options_override(given: list[str], size: str, posts: int, readers: int) -> None:
    options = parser(None, quick={"posts": 100, "readers": 5}, smallest={"posts": 10})
    options.add_argument("--posts", type=int, default=1_000)
    options.add_argument("--readers", type=int, default=50)
    chosen = options.parse_args(given)
    assert (chosen.size, chosen.posts, chosen.readers) == (size, posts, readers)


def test_targets_are_of_the_full_size_only() -> None:
    for size, verdict in ((FULL, "<= 180: missed by 50%"), (QUICK, "")):
        report = Report("import_real", size)
        report.add("all of it", 270)
        assert report.figures[0].verdict == verdict


def test_a_target_may_be_of_what_the_raw_engine_did_in_the_same_run() -> None:
    report = Report("redis_structures")
    report.add("fan-out of one worker, beside ZADD and trim", 180, raw=100)
    report.add("fan-out of one worker, beside ZADD and trim", 160, raw=100)
    assert [figure.verdict for figure in report.figures] == [">= 170: met", ">= 170: missed by 6%"]


def test_targets_are_of_benchmarks_that_exist() -> None:
    assert {target.benchmark.rstrip("*") for target in TARGETS} <= set(benchmarks())


_SLOW_START = """
import subprocess
kept = bytearray(100 << 20)
kept[::4096] = b"x" * len(kept[::4096])
everywhere = ":".join(f"/nowhere/{number}" for number in range(300_000))
print("ready", flush=True)
try:
    subprocess.run(["nothing"], env={"PATH": everywhere})
except FileNotFoundError:
    pass
"""
"""A process of some 150 MB whose child looks long for its program: 300,000 names of files that are not there."""


def test_a_child_that_has_not_begun_its_program_takes_no_memory_of_its_own() -> None:
    seen: list[int] = []
    with subprocess.Popen([sys.executable, "-c", _SLOW_START], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        assert parent.stdout.readline()
        with_child = 0
        while parent.poll() is None:
            with_child += len(tree(parent.pid)) > 1
            seen.append(tree_rss(parent.pid))
    assert with_child, "the child was never looked at"
    assert 100 << 20 < max(seen) < 200 << 20


def test_what_an_object_holds_is_counted_once() -> None:
    name, numbers = "a name of some length", tuple(range(1_000, 1_010))
    held = sys.getsizeof(name) + sys.getsizeof(numbers) + sum(map(sys.getsizeof, numbers))
    twice = (numbers, {name: numbers})
    assert held_bytes(twice) == held + sys.getsizeof(twice) + sys.getsizeof(twice[1])
