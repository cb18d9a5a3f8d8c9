"""Benchmark reports fail on wrong checks, and benchmarks have small sizes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.measure import FULL, QUICK, SMALLEST, Report, benchmarks, held_bytes, parser, tree, tree_cpu, tree_rss
from benchmarks.targets import TARGETS


def test_benchmark_report_with_failed_check_exits_with_status_one() -> None:
    report = Report("of_nothing", SMALLEST)
    report.check("posts that are there", 0, 1_000)
    with pytest.raises(SystemExit) as ended:
        report.show()
    assert ended.value.code == 1


def test_benchmark_report_without_checks_exits_with_status_one() -> None:
    with pytest.raises(SystemExit) as ended:
        Report("of_nothing", SMALLEST).show()
    assert ended.value.code == 1


def test_benchmark_report_with_passed_checks_exits_with_status_zero() -> None:
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
def test_benchmark_sizes_are_defaults_that_options_override(
    given: list[str], size: str, posts: int, readers: int
) -> None:
    options = parser(None, quick={"posts": 100, "readers": 5}, smallest={"posts": 10})
    options.add_argument("--posts", type=int, default=1_000)
    options.add_argument("--readers", type=int, default=50)
    chosen = options.parse_args(given)
    assert (chosen.size, chosen.posts, chosen.readers) == (size, posts, readers)


def test_benchmark_targets_apply_only_to_runs_of_full_size() -> None:
    for size, verdict in ((FULL, "<= 180: missed by 50%"), (QUICK, "")):
        report = Report("import_real", size)
        report.add("all of it", 270)
        assert report.figures[0].verdict == verdict


def test_benchmark_target_relative_to_raw_engine_is_judged_by_ratio_to_raw_rate() -> None:
    report = Report("redis_structures")
    report.add("fan-out of one worker, compared with ZADD and trim", 180, raw=100)
    report.add("fan-out of one worker, compared with ZADD and trim", 160, raw=100)
    assert [figure.verdict for figure in report.figures] == [">= 170: met", ">= 170: missed by 6%"]


def test_benchmark_targets_refer_to_existing_benchmarks() -> None:
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
"""A process of about 150 MB whose child searches a PATH of 300,000 missing directories before it fails."""


def test_process_tree_memory_excludes_forked_child_before_exec() -> None:
    seen: list[int] = []
    with subprocess.Popen([sys.executable, "-c", _SLOW_START], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        assert parent.stdout.readline()
        with_child = 0
        while parent.poll() is None:
            with_child += len(tree(parent.pid)) > 1
            seen.append(tree_rss(parent.pid))
    assert with_child, "the child was never sampled"
    assert 100 << 20 < max(seen) < 200 << 20


def test_benchmark_memory_size_of_objects_counts_shared_objects_once() -> None:
    name, numbers = "a name of some length", tuple(range(1_000, 1_010))
    held = sys.getsizeof(name) + sys.getsizeof(numbers) + sum(map(sys.getsizeof, numbers))
    twice = (numbers, {name: numbers})
    assert held_bytes(twice) == held + sys.getsizeof(twice) + sys.getsizeof(twice[1])


_BUSY_CHILD = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.5: pass"], check=True)
print("ended", flush=True)
sys.stdin.readline()
"""
"""A process whose child used half a second of processor time and has ended."""


def test_process_tree_cpu_time_includes_ended_child() -> None:
    command = [sys.executable, "-c", _BUSY_CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        assert parent.stdout.readline()
        # The kernel counts in ticks of 10 ms and rounds user and system time down.
        assert tree_cpu(parent.pid) >= 0.5 - 0.02
        parent.communicate()
