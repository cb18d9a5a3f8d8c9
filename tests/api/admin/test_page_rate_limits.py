"""Rate limits of pages and files by client address."""

from __future__ import annotations

from starlette.responses import PlainTextResponse

from shoal.http.middleware import Limited
from shoal.http.rate_limits import DEFAULTS, MemoryLimiter, RateRule
from tests.api.harness import ask
from tests.api.in_memory_network import BASE, network_fixture, picture


def test_rate_limiter_applies_page_limit_to_web_pages_and_file_limit_to_media_files() -> None:
    with network_fixture(rate_limits=True) as limited:
        ann = limited.join("ann")
        photo = limited.json("POST", "/api/v2/media", ann, files={"file": picture()})["url"].removeprefix(BASE)
        for path, name in [
            ("/", "pages"),
            ("/@ann", "pages"),
            ("/@nobody", "pages"),
            ("/else", "pages"),
            (photo, "files"),
            ("/media/none", "files"),
            ("/avatars/original/missing.png", "files"),
        ]:
            assert limited.ask("GET", path).headers["x-ratelimit-limit"] == str(DEFAULTS[name].limit), path


def test_rate_limiter_over_page_limit_returns_429_and_still_serves_files() -> None:
    limiter = MemoryLimiter({"pages": RateRule(1, 300), "files": RateRule(5, 300)}, clock=lambda: 1_000_000.0)
    pages, files = (Limited(PlainTextResponse("hello"), limiter, name) for name in ("pages", "files"))
    answers = [ask(app, "GET", path) for app, path in ((pages, "/a"), (pages, "/b"), (files, "/file"))]
    assert [answer.status_code for answer in answers] == [200, 429, 200]
    assert answers[1].headers["retry-after"] == "200"
    assert answers[1].headers["x-ratelimit-remaining"] == "0"
    assert "Too many requests" in answers[1].text


def test_rate_limiter_disabled_sends_no_rate_limit_headers() -> None:
    with network_fixture() as free:
        answer = free.ask("GET", "/")
        assert answer.status_code == 200
        assert "x-ratelimit-limit" not in answer.headers
