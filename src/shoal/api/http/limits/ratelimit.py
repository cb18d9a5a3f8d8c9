"""Rate limits: how many requests of a class one member or address may send in a fixed window of time.

Windows begin at multiples of their length, so the counts of a class are one dictionary that is thrown away when its window
ends. Memory is bounded: past `capacity` callers in one window the oldest is forgotten, which errs on the side of serving.
A class without a rule, or with a limit of 0, is not limited.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple, Protocol

from starlette.types import Scope

from shoal.api.http.replies import RawHeader
from shoal.settings import Settings, SettingsError


class RateKey(NamedTuple):
    """Whose requests of which class are counted together."""

    limit_class: str
    who: int | str
    """A member's id, or an address as `address_key` gives it."""


class RateRule(NamedTuple):
    """So many requests in so many seconds."""

    limit: int
    seconds: int


class RateWindow(NamedTuple):
    """Where a caller stands: `reset` is when the window ends, in Unix seconds.

    `wait` is 0, or the seconds until then when this request was one too many.
    """

    limit: int
    remaining: int
    reset: int
    wait: float = 0.0


DEFAULTS: Mapping[str, RateRule] = {
    "api": RateRule(300, 300),
    "media": RateRule(30, 1800),
    "delete": RateRule(30, 1800),
    "signup": RateRule(5, 1800),
    "login": RateRule(30, 300),
    "apps": RateRule(30, 1800),
    "account_guesses": RateRule(10, 600),
    "network_guesses": RateRule(50, 600),
    "code_guesses": RateRule(20, 86_400),
    "account_mails": RateRule(3, 3_600),
    "network_mails": RateRule(20, 3_600),
    "pages": RateRule(600, 300),
    "files": RateRule(3_000, 300),
    "contacts": RateRule(10, 86_400),
    "archives": RateRule(30, 86_400),
}
"""Mastodon's numbers; `login` guards the password and token forms. Of the last two, which it leaves to the server in front,
`pages` is what a browser reads, and `files` are pictures: a page has many, but a client keeps them for ever.

`contacts` are hashed address books of 2,000 addresses: few, for a list of guesses looks the same. `archives` are follow lists
from elsewhere, 10,000 look-ups each.

The three of `guesses` count wrong passwords and codes alone (`guesses.py`): passwords for one account, both from one network,
and codes of one member. Of a million codes three count at a time: with 20 a day one is guessed in 45 years, by whoever has the
password."""

BY_ADDRESS = frozenset({"apps", "signup"})
"""Classes that are counted by address even when a member's token is sent: a token must not buy more of them."""

UNLIMITED = "none"
"""The class of routes that have no limit: for monitoring."""

OFF: Mapping[str, RateRule] = dict.fromkeys(DEFAULTS, RateRule(0, 300))
"""No limit at all, for tests and load."""


_RULE = re.compile(r"([0-9]{1,9})/([0-9]{1,6})([smh]?)")
_LONGEST = 86_400
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600}


def rules(settings: Settings) -> Mapping[str, RateRule]:
    """The rules that the settings make of `DEFAULTS`. Raises `SettingsError` for a class or a rule that there is not."""
    unknown = sorted(settings.limits.keys() - DEFAULTS.keys())
    if unknown:
        raise SettingsError(f"settings: limits has no class {unknown[0]!r}; there are {', '.join(DEFAULTS)}")
    chosen = {**DEFAULTS, **{name: _rule(name, text) for name, text in settings.limits.items()}}
    return chosen if settings.rate_limits else OFF


def _rule(name: str, text: str) -> RateRule:
    if text == "off":
        return RateRule(0, 300)
    found = _RULE.fullmatch(text)
    seconds = int(found[2]) * _UNITS[found[3]] if found else 0
    if found is None or not int(found[1]) or not 1 <= seconds <= _LONGEST:
        raise SettingsError(
            f"settings: limits.{name} is {text!r}; it must be requests and a time of at most a day, such as 300/5m"
            " (s, m or h), or off"
        )
    return RateRule(int(found[1]), seconds)


class Limiter(Protocol):
    """Counts requests. The class of a key must be one that it was made with."""

    @property
    def classes(self) -> frozenset[str]:
        """The classes that it knows, limited or not."""

    @property
    def refused(self) -> Mapping[str, int]:
        """Requests that were one too many for this process since it began, by class."""

    async def take(self, key: RateKey, cost: int = 1) -> RateWindow | None:
        """Count a request; None when its class is not limited. A refused request is not counted."""

    async def give_back(self, key: RateKey, window: RateWindow) -> None:
        """Uncount a request that `take` counted in this window. Nothing happens once the window has ended."""


class _Counts:
    """The counts of one class in the window that ends at `reset`."""

    __slots__ = ("reset", "rule", "used")

    def __init__(self, rule: RateRule) -> None:
        self.rule = rule
        self.reset = 0
        self.used: dict[int | str, int] = {}


class MemoryLimiter:
    """A `Limiter` in this process's memory: exact for one process, per process when there are several."""

    def __init__(
        self, rules: Mapping[str, RateRule], *, clock: Callable[[], float] = time.time, capacity: int = 100_000
    ) -> None:
        if any(rule.limit < 0 or rule.seconds < 1 for rule in rules.values()):
            raise ValueError("a rate limit is at least 0 requests (0 is off) in at least 1 second")
        self.classes = frozenset(rules)
        self.refused: Counter[str] = Counter()
        self._counts = {name: _Counts(rule) for name, rule in rules.items() if rule.limit}
        self._clock = clock
        self._capacity = capacity

    async def take(self, key: RateKey, cost: int = 1) -> RateWindow | None:
        """Count a request; None when its class is not limited. A refused request is not counted."""
        counts = self._counts.get(key.limit_class)
        if counts is None:
            return None
        now, (limit, seconds) = self._clock(), counts.rule
        # The second half: the clock was set back by more than a window.
        if now >= counts.reset or counts.reset - now > seconds:
            counts.reset = (int(now) // seconds + 1) * seconds
            counts.used = {}
        used = counts.used.get(key.who, 0)
        if used + cost > limit:
            self.refused[key.limit_class] += 1
            return RateWindow(limit, max(0, limit - used), counts.reset, max(1.0, counts.reset - now))
        if not used and len(counts.used) >= self._capacity:
            del counts.used[next(iter(counts.used))]
        counts.used[key.who] = used + cost
        return RateWindow(limit, limit - used - cost, counts.reset)

    async def give_back(self, key: RateKey, window: RateWindow) -> None:
        """Uncount a request that `take` counted in this window. Nothing happens once the window has ended."""
        counts = self._counts.get(key.limit_class)
        if counts is not None and counts.reset == window.reset and counts.used.get(key.who):
            counts.used[key.who] -= 1


def headers(window: RateWindow) -> list[RawHeader]:
    """The three X-RateLimit headers; Mastodon.py sleeps until Reset, so it is always a moment to come."""
    return [
        (b"x-ratelimit-limit", b"%d" % window.limit),
        (b"x-ratelimit-remaining", b"%d" % window.remaining),
        (b"x-ratelimit-reset", _iso(window.reset)),
    ]


@lru_cache(maxsize=64)
def _iso(moment: int) -> bytes:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()


def address_of(scope: Scope) -> str:
    """Return the key that the caller's address is counted under; empty when the address is not known."""
    client = scope.get("client")
    return address_key(client[0]) if client else ""


@lru_cache(maxsize=4096)
def network_key(address: str) -> str:
    """Return the network of an `address_key`: the /24 of an IPv4 address; the /64 of an IPv6 address is one already.

    Logins store hashes of it, so another width would make every known network unknown.
    """
    try:
        return str(ipaddress.IPv4Network((address, 24), strict=False))
    except ValueError:
        return address


@lru_cache(maxsize=4096)
def site_key(address: str) -> str:
    """Return the /48 of the `address_key` of an IPv6 address, as one site is given that; any other key is returned as it is."""
    try:
        return str(ipaddress.IPv6Network(address).supernet(new_prefix=48))
    except ValueError:
        return address


@lru_cache(maxsize=4096)
def address_key(address: str) -> str:
    """Return the key of an address: itself, or the /64 network of an IPv6 address, as one household is given that."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or ipaddress.IPv6Network((parsed, 64), strict=False))
