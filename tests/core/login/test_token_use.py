"""User-Agent headers are parsed into programs, and unused tokens expire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.tokens import Origin, TokenLifetime, TokenUse, origin_of

_DAY = 86_400_000
_WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"
_CHROME = f"{_WEBKIT} Chrome/140.0.0.0 Safari/537.36"
_WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"


@pytest.mark.parametrize(
    ("text", "program", "system"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox", "Linux"),
        ("Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0", "Firefox", "Android"),
        (f"{_WINDOWS} {_CHROME}", "Chrome", "Windows"),
        (f"{_WINDOWS} {_CHROME} Edg/140.0.0.0", "Edge", "Windows"),
        (f"{_WINDOWS} {_CHROME} OPR/122.0.0.0", "Opera", "Windows"),
        (
            f"Mozilla/5.0 (Linux; Android 10; K) {_WEBKIT} SamsungBrowser/28.0 Chrome/130.0.0.0",
            "Samsung Internet",
            "Android",
        ),
        (f"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) {_CHROME}", "Chrome", "ChromeOS"),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
            "Safari",
            "macOS",
        ),
        (
            f"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) {_WEBKIT} CriOS/140.0 Safari/604.1",
            "Chrome",
            "iPhone",
        ),
        ("Mozilla/5.0 (compatible; something)", "", ""),
        ("Tusky/28.0 Android/15", "Tusky", "Android"),
        ("IceCubesApp/1 CFNetwork/1 Darwin/24", "IceCubesApp", ""),
        ("mastodonpy", "mastodonpy", ""),
        ("python-httpx/0.28.1", "python-httpx", ""),
        ("\x00\x1b[31mred\x7f/1", "[31mred", ""),
        ("x" * 1_000, "x" * 40, ""),
        ("", "", ""),
    ],
)
def test_user_agent_is_parsed_into_program_and_system(text: str, program: str, system: str) -> None:
    assert origin_of("192.0.2.7", text) == Origin("192.0.2.7", program, system)


@given(st.text(max_size=2_000), st.text(max_size=2_000))
def test_app_and_system_names_from_user_agent_are_limited_in_length(address: str, text: str) -> None:
    origin = origin_of(address, text)
    assert len(origin.program) <= 40
    assert origin.program.isprintable()
    assert len(origin.system) <= 10
    assert len(origin.address) <= 64


def test_token_use_keeps_first_address_and_updates_last_use() -> None:
    made = Origin("192.0.2.7", "Firefox", "Linux").first(5)
    assert made == TokenUse(5, "Firefox", "Linux", "192.0.2.7", "192.0.2.7")
    assert Origin("192.0.2.9", "Chrome", "").after(made, 9) == TokenUse(9, "Chrome", "", "192.0.2.7", "192.0.2.9")
    assert Origin("192.0.2.9").after(made, 9) == TokenUse(9, "Firefox", "Linux", "192.0.2.7", "192.0.2.9")


@given(st.integers(1, 400), st.integers(0, 400), st.integers(0, 400), st.integers(0, 2_000))
def test_access_token_expires_only_after_idle_days_without_use(idle: int, since: int, used: int, now: int) -> None:
    lifetime = TokenLifetime(idle * _DAY, since * _DAY)
    over = lifetime.is_over(TokenUse(used * _DAY), now * _DAY)
    # The latest use may be almost a day later than the stored one.
    assert over == (now - max(used, since) > idle)
    assert not TokenLifetime(0, since * _DAY).is_over(TokenUse(used * _DAY), now * _DAY)
    assert TokenUse(used * _DAY).is_due(now * _DAY) == (now > used)
