"""Each of the traced requests visits at most as many source files as its target says."""

from __future__ import annotations

import asyncio

from scripts.trace_request import TARGETS, traces


def test_no_request_visits_more_files_than_its_target() -> None:
    found = {trace.request: len(trace.files) for trace in asyncio.run(traces())}
    assert found.keys() == TARGETS.keys()
    assert {request: files for request, files in found.items() if files > TARGETS[request]} == {}
