"""Every benchmark runs in its smallest size and passes its checks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.limits import LIMITS, figure_of
from benchmarks.measure import REPOSITORY, SMALLEST, benchmarks, decode_line
from shoal.cli import diagnostics


def ran(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a benchmark and return the finished process."""
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=REPOSITORY, capture_output=True, text=True, timeout=280, check=False
    )


@pytest.mark.parametrize("name", benchmarks())
def test_benchmark_in_smallest_size_passes_its_checks(name: str) -> None:
    done = ran(f"benchmarks.{name}", "--smallest")
    assert done.returncode == 0, done.stdout + done.stderr
    told = decode_line(done.stdout.splitlines()[-1])
    assert told.size == SMALLEST
    assert told.checks
    assert [check for check in told.checks if not check.right] == []
    assert [figure.what for figure in told.figures if figure.value < 0] == []
    for limit in LIMITS:
        if limit.benchmark == name:
            figure = figure_of(limit, told.figures)
            assert figure is not None, f"no figure measures {limit.path}"
            assert figure.raw, f"no engine figure is compared with {limit.path}"


def test_benchmark_discovery_finds_benchmarks_and_skips_helpers() -> None:
    assert {"end_to_end", "fanout_memory", "shared_fanout"} <= set(benchmarks())
    assert not {"measure", "bare", "stores"} & set(benchmarks())


def test_shoal_bench_lists_exactly_discovered_benchmarks() -> None:
    assert diagnostics._known() == benchmarks()
