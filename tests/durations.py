"""A pytest plugin that reports the slowest test files and kinds of test."""

from __future__ import annotations

import resource
import time
from collections import Counter, defaultdict
from collections.abc import Generator
from typing import NamedTuple

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import is_hypothesis_test

SLOWEST = 10
"""Maximum number of rows in each table."""

_ENGINES = ("postgres", "dynamodb", "redis", "rabbitmq", "cluster")


class Measured(NamedTuple):
    """A point in time: seconds of a clock and of processor time."""

    elapsed: float
    processor: float


_BEGAN = pytest.StashKey[Measured]()


def now() -> Measured:
    """Return the current time. Child processes are included once they have been waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return Measured(time.monotonic(), sum(each.ru_utime + each.ru_stime for each in used))


def kind(item: pytest.Item) -> str:
    """Return the main cause of a test's duration."""
    names = set(getattr(item, "fixturenames", ()))
    parts = item.path.parts
    if "benchmarks" in parts:
        return "benchmarks"
    if "faults" in parts:
        return "faults"
    if "chromium" in parts or "chromium" in names:
        return "browser"
    if is_hypothesis_test(getattr(item, "obj", None)):
        return "properties"
    if any(engine in item.nodeid for engine in _ENGINES):
        return "engines"
    return "other"


class Durations:
    """A plugin that measures tests in each worker and adds up the results in the pytest controller."""

    def __init__(self) -> None:
        self._files: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._kinds: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._began = now()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """Start measuring a test."""
        item.stash[_BEGAN] = now()
        yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        """Attach the measured time of a test to its last report."""
        try:
            yield
        finally:
            began, ended = item.stash[_BEGAN], now()
            item.user_properties += [
                ("elapsed", round(ended.elapsed - began.elapsed, 3)),
                ("processor", round(ended.processor - began.processor, 3)),
                ("kind", kind(item)),
            ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the measured time of a finished test to the totals."""
        used = dict(report.user_properties)
        if report.when == "teardown" and "kind" in used:
            for group in (self._files[report.location[0]], self._kinds[str(used["kind"])]):
                group.update({"tests": 1, "elapsed": used["elapsed"], "processor": used["processor"]})

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Print the tables."""
        if not self._files:
            return
        elapsed = time.monotonic() - self._began.elapsed
        # Workers and shared engines are children that this process has waited for.
        total = now().processor
        terminalreporter.section("durations")
        for title, groups in ((f"slowest {SLOWEST} files", self._files), ("kinds", self._kinds)):
            terminalreporter.write_line(f"{'elapsed':>9} {'processor':>9} {'tests':>6}  {title}")
            for name, used in sorted(groups.items(), key=lambda item: -item[1]["elapsed"])[:SLOWEST]:
                terminalreporter.write_line(
                    f"{used['elapsed']:7.1f} s {used['processor']:7.1f} s {used['tests']:6,}  {name}"
                )
        terminalreporter.write_line(f"{elapsed:,.0f} s in all, {total:,.0f} processor seconds, engines included")
