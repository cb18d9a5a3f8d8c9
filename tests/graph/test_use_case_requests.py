"""The nine use cases of the single-table document take the requests that their page states."""

from __future__ import annotations

import re

from tests.async_runner import in_loop
from tests.graph.use_cases_page import PAGE, counted, with_tables


@in_loop
async def test_dynamodb_use_cases_take_the_number_of_requests_stated_in_documentation() -> None:
    page = PAGE.read_text("utf-8")
    counts = await counted()
    assert with_tables(page, counts) == page, "python -m tests.graph.use_cases_page writes them"
    for use_case, visitor, member in counts.cases:
        lists = set(re.findall(r"list#\d{3}", use_case.condition))
        assert lists <= set(re.findall(r"list#\d{3}", " ".join(member.cold.requests))), use_case.name
        if visitor is not None:
            assert len(visitor.warm.requests) <= 1, use_case.name
