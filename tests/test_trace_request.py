"""Limits on the number of source files that a request passes through."""

from __future__ import annotations

import asyncio

from scripts.trace_request import TARGETS, traces


def test_traced_requests_run_code_of_at_most_the_target_number_of_source_files() -> None:
    found = {trace.request: len(trace.files) for trace in asyncio.run(traces())}
    assert found.keys() == TARGETS.keys()
    assert {request: files for request, files in found.items() if files > TARGETS[request]} == {}
