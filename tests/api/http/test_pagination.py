"""Pagination parameters and Link headers."""

from __future__ import annotations

import re

import pytest

from shoal.http.pagination import PageQuery, link_header, page_size
from shoal.http.params import convert
from tests.api.harness import params_of

HOME = "https://shoal.test/api/v1/timelines/home"


@pytest.mark.parametrize(
    ("query", "size"),
    [("", 20), ("limit=5", 5), ("limit=40", 40), ("limit=41", 40), ("limit=0", 20), ("limit=-3", 20), ("limit=x", 20)],
)
def test_pagination_limit_is_clamped_and_invalid_limit_is_default(query: str, size: int) -> None:
    assert convert(params_of(query=query), PageQuery).size() == size


def test_pagination_page_size_is_default_without_limit_and_capped_at_maximum() -> None:
    assert page_size(0, 100, 200) == 100
    assert page_size(10**18, 100, 200) == 200


def test_pagination_cursors_that_are_invalid_are_ignored() -> None:
    query = convert(params_of(query="max_id=7&since_id=x&min_id="), PageQuery)
    assert (query.max_id, query.since_id, query.min_id) == (7, 0, 0)


def test_link_header_of_full_page_has_next_before_prev() -> None:
    assert link_header(HOME, 90, 50, limit=20, more=True) == (
        f'<{HOME}?limit=20&max_id=50>; rel="next", <{HOME}?limit=20&min_id=90>; rel="prev"'
    )


def test_link_header_of_last_page_has_no_next_and_of_empty_page_is_empty() -> None:
    assert link_header(HOME, 90, 50, limit=20, more=False) == f'<{HOME}?limit=20&min_id=90>; rel="prev"'
    assert link_header(HOME, None, None, limit=20, more=False) == ""


def test_link_header_keeps_other_parameters_and_escapes_commas() -> None:
    url = f"{HOME}?types[]=a,b&types[]=c&q=&max_id=1&since_id=2&min_id=3&limit=9&access_token=secret"
    link = link_header(url, 90, 50, limit=9, more=True)
    assert link == (
        f'<{HOME}?types%5B%5D=a%2Cb&types%5B%5D=c&q=&limit=9&max_id=50>; rel="next", '
        f'<{HOME}?types%5B%5D=a%2Cb&types%5B%5D=c&q=&limit=9&min_id=90>; rel="prev"'
    )
    assert len(link.split(",")) == 2


def test_link_header_next_link_matches_pattern_of_toot() -> None:
    link = link_header("http://localhost:3000/api/v1/timelines/tag/a,b", 90, 50, limit=1, more=True)
    match = re.match(r'<([^>]+)>; rel="next"', link)
    assert match
    assert match[1] == "http://localhost:3000/api/v1/timelines/tag/a%2Cb?limit=1&max_id=50"
