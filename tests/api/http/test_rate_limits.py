"""Rate limits: counting per caller, response headers, and the limits setting."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from shoal.http.rate_limits import (
    DEFAULTS,
    OFF,
    MemoryLimiter,
    RateKey,
    RateRule,
    RateWindow,
    address_key,
    address_prefix,
    rules,
    site_key,
)
from shoal.settings import SettingsError, build, load
from tests.api.harness import ask, make_app
from tests.async_runner import run


class Clock:
    """A clock that is set by hand, in Unix seconds."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def take(limits: MemoryLimiter, key: RateKey, cost: int = 1) -> RateWindow | None:
    return run(limits.take(key, cost))


def limiter(limit: int = 2, seconds: int = 60, *, clock: Clock | None = None, capacity: int = 1000) -> MemoryLimiter:
    """A limiter with one class, `api`."""
    return MemoryLimiter({"api": RateRule(limit, seconds)}, clock=clock or Clock(), capacity=capacity)


def test_rate_limiter_refuses_requests_over_limit_until_window_resets() -> None:
    clock = Clock(1_000_000.0)
    limits = limiter(clock=clock)
    key = RateKey("api", 1)
    assert [take(limits, key) for _ in range(3)] == [
        RateWindow(2, 1, 1_000_020),
        RateWindow(2, 0, 1_000_020),
        RateWindow(2, 0, 1_000_020, 20.0),
    ]
    clock.now = 1_000_020.0
    assert take(limits, key) == RateWindow(2, 1, 1_000_080)


def test_rate_limiter_counts_callers_and_request_classes_separately() -> None:
    limits = MemoryLimiter({"api": RateRule(1, 60), "media": RateRule(1, 60)}, clock=Clock())
    keys = [RateKey("api", 1), RateKey("api", "10.0.0.1"), RateKey("media", 1)]
    windows = [take(limits, key) for key in keys]
    assert all(window and not window.wait for window in windows)


def test_rate_limiter_counts_request_cost_and_ignores_refused_requests() -> None:
    limits = limiter(5)
    assert take(limits, RateKey("api", 1), 4) == RateWindow(5, 1, 1_000_020)
    assert take(limits, RateKey("api", 1), 4) == RateWindow(5, 1, 1_000_020, 20.0)
    assert take(limits, RateKey("api", 1), 1) == RateWindow(5, 0, 1_000_020)


def test_rate_limiter_give_back_restores_allowance() -> None:
    clock = Clock(1_000_000.0)
    limits = limiter(clock=clock)
    key = RateKey("api", 1)
    window = RateWindow(2, 0, 1_000_020)
    run(limits.give_back(key, window))
    assert take(limits, key, 2) == window
    run(limits.give_back(key, window))
    assert take(limits, key) == window
    for _ in range(3):
        run(limits.give_back(key, window))
    assert take(limits, key, 2) == window
    clock.now = 1_000_020.0
    run(limits.give_back(RateKey("other", 1), window))
    assert take(limits, key) == RateWindow(2, 1, 1_000_080)


def test_rate_limiter_give_back_for_past_window_does_not_change_current_window() -> None:
    clock = Clock(0.0)
    limits = limiter(3, clock=clock)
    key = RateKey("api", "ann")
    first = take(limits, key)
    assert first is not None
    clock.now = 61.0
    take(limits, key)
    run(limits.give_back(key, first))
    assert [bool(window and window.wait) for window in (take(limits, key) for _ in range(3))] == [False, False, True]


def test_rate_limiter_with_zero_limit_or_unknown_class_is_unlimited() -> None:
    assert take(limiter(0), RateKey("api", 1)) is None
    assert take(limiter(), RateKey("other", 1)) is None
    assert OFF.keys() == DEFAULTS.keys()


def test_rate_limiter_memory_is_bounded_by_evicting_oldest_caller() -> None:
    limits = limiter(1, capacity=3)
    for who in range(10):
        take(limits, RateKey("api", who))
    assert len(limits._counts["api"].used) == 3  # no public API exposes this


def test_rate_limiter_with_clock_set_back_accepts_requests() -> None:
    clock = Clock(1_000_000.0)
    limits = limiter(1, clock=clock)
    take(limits, RateKey("api", 1))
    clock.now = 500_000.0
    window = take(limits, RateKey("api", 1))
    assert window
    assert window.wait == 0
    assert window.reset <= clock.now + 60


@pytest.mark.parametrize("rule", [RateRule(-1, 60), RateRule(1, 0)])
def test_rate_limiter_with_invalid_rule_raises_value_error(rule: RateRule) -> None:
    with pytest.raises(ValueError, match="at least"):
        MemoryLimiter({"api": rule})


def test_rate_limit_key_of_ipv6_addresses_is_their_64_prefix() -> None:
    assert address_key("2001:db8::1") == address_key("2001:db8::ffff") == "2001:db8::/64"
    assert address_key("::ffff:10.0.0.1") == address_key("10.0.0.1") == "10.0.0.1"
    assert address_key("unix") == "unix"


def test_rate_limit_headers_are_sent_on_every_api_response() -> None:
    app = make_app(limiter=MemoryLimiter({"api": RateRule(100, 300), "media": RateRule(30, 1800)}))
    for path, token in [
        ("/api/v1/instance", ""),
        ("/api/v1/statuses/home", "member"),
        ("/api/v1/statuses/home", "wrong"),
        ("/api/v1/statuses/home", ""),
        ("/api/v1/refuse", ""),
        ("/api/v1/nothing", ""),
    ]:
        before = datetime.now(UTC)
        headers = ask(app, "GET", path, token=token).headers
        assert headers["x-ratelimit-limit"] == "100"
        assert 0 < int(headers["x-ratelimit-remaining"]) < 100
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", headers["x-ratelimit-reset"])
        assert datetime.fromisoformat(headers["x-ratelimit-reset"]) > before


def test_rate_limit_exceeded_returns_429_with_retry_after() -> None:
    app = make_app(limiter=MemoryLimiter({"api": RateRule(1, 300), "media": RateRule(30, 1800)}, clock=Clock()))
    assert ask(app, "GET", "/api/v1/instance").status_code == 200
    answer = ask(app, "GET", "/api/v1/instance")
    assert (answer.status_code, answer.json()) == (429, {"error": "Too many requests"})
    assert answer.headers["retry-after"] == "200"
    assert answer.headers["x-ratelimit-remaining"] == "0"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert ask(app, "GET", "/api/v1/statuses/home", token="member").status_code == 200


def test_rate_limit_applies_to_invalid_tokens() -> None:
    app = make_app(limiter=MemoryLimiter({"api": RateRule(1, 300), "media": RateRule(30, 1800)}, clock=Clock()))
    assert [ask(app, "GET", "/api/v1/statuses/home", token="guess").status_code for _ in range(2)] == [401, 429]


def test_rate_limits_disabled_send_no_headers() -> None:
    assert "x-ratelimit-limit" not in ask(make_app(), "GET", "/api/v1/instance").headers


def test_rate_limits_setting_for_some_request_classes_keeps_defaults_of_unnamed_classes() -> None:
    chosen = rules(build(limits={"api": "600/5m", "signup": "off", "login": "7/90", "media": "5/1h", "pages": "1/1s"}))
    assert chosen["api"] == RateRule(600, 300)
    assert chosen["signup"].limit == 0
    assert chosen["login"] == RateRule(7, 90)
    assert chosen["media"] == RateRule(5, 3600)
    assert chosen["pages"] == RateRule(1, 1)
    assert chosen["delete"] == DEFAULTS["delete"]
    assert rules(build(limits={"api": "600/5m"}, rate_limits=False)) == OFF


def test_rate_limits_setting_is_read_from_environment_as_json() -> None:
    assert rules(load({"SHOAL_LIMITS": '{"api": "9/1m"}'}))["api"] == RateRule(9, 60)
    with pytest.raises(SettingsError, match="limits is not valid JSON"):
        load({"SHOAL_LIMITS": "{api"})


@pytest.mark.parametrize(
    "given", ["", "300", "300/", "/300", "0/300", "-1/300", "300/0", "300/5d", "3.5/1", "1/25h", "300 / 300", "1/1\n"]
)
def test_rate_limits_setting_with_invalid_limit_raises_settings_error(given: str) -> None:
    with pytest.raises(SettingsError, match=r"limits\.api must be .*such as 300/5m"):
        rules(build(limits={"api": given}))


def test_rate_limits_setting_with_unknown_request_class_raises_settings_error() -> None:
    with pytest.raises(SettingsError, match=r"limits: unknown class of requests 'apis'; choose one of api, media"):
        rules(build(limits={"apis": "1/1"}))
    with pytest.raises(SettingsError, match="limits"):
        build(limits="often")


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.77", "192.0.2.0/24"),
        ("::ffff:192.0.2.77", "192.0.2.0/24"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("somewhere", "somewhere"),
    ],
)
def test_rate_limit_address_range_is_24_prefix_for_ipv4_and_64_prefix_for_ipv6(address: str, network: str) -> None:
    assert address_prefix(address_key(address)) == network


@pytest.mark.parametrize(
    ("address", "site"),
    [("192.0.2.77", "192.0.2.77"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"), ("somewhere", "somewhere")],
)
def test_rate_limit_site_of_address_is_48_prefix_for_ipv6_and_whole_address_for_ipv4(address: str, site: str) -> None:
    assert site_key(address_key(address)) == site
