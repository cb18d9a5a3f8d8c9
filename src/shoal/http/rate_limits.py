"""Rate limits: the number of requests of a class that one member or address may send in a fixed window.

Windows start at multiples of their length, so the counts of a class are one dictionary that is dropped when its window ends. Memory
is bounded: past `capacity` callers in one window, the oldest entry is evicted, so a caller may get too many requests but never too
few. A class without a rule, or with a limit of 0, is not limited.

`SharedLimiter` counts for several processes on one host, in shared memory. Each process writes its own table and reads the tables
of the others. Simultaneous requests may exceed a limit by at most one for each additional process. An entry is two words: a hash of
the key, and the end of the window with the count. A key has four possible positions in a table; if all are taken, the entry whose
window ends first is evicted.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple, Protocol

from starlette.types import Scope

from shoal.core.blocklists import parse_address
from shoal.http.responses import RawHeader
from shoal.http.routes import Caller
from shoal.settings import Settings, SettingsError


class RateKey(NamedTuple):
    """The key of a counter of requests: the class of requests, and the caller."""

    limit_class: str
    who: int | str
    """A member's id, an address in the form of `address_key`, or another name of a caller."""


class RateRule(NamedTuple):
    """At most `limit` requests in each window of some seconds."""

    limit: int
    seconds: int


class RateWindow(NamedTuple):
    """A caller's limit in the current window: the window ends at `reset` (Unix seconds).

    `wait` is 0, or the seconds until `reset` if this request exceeded the limit.
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
    "oidc": RateRule(300, 300),
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
    "server": RateRule(3_000, 300),
    "server_members": RateRule(30_000, 300),
    "token": RateRule(3_000, 300),
    "exchange": RateRule(30, 300),
}
"""Mastodon's limits; `login` is for the password and token forms. Mastodon leaves `pages` (HTML) and `files` to the proxy. A
page has many pictures, which clients cache permanently. `oidc` is for the two requests of a login with a provider, which has no
password that could be guessed. `server` is for the requests of a server key that acts for no member, and `server_members` for the
members that it creates or changes. `token` is for all requests to the token endpoint; those that are no successful token exchange
count for `login` too, and the others for `exchange`, by app and external id.

`contacts` are hashed address books of 2,000 addresses; the limit is low, because they cannot be distinguished from lists of
guesses. `archives` are follow lists of other networks, 10,000 look-ups each.

The three classes of `guesses` count only wrong passwords and codes (`mastodon_api/login_attempts.py`): passwords per account,
both per address range, and codes per member. Of a million codes, three are valid at any moment: at 20 guesses per day, an
attacker with the password needs 45 years.
"""

BY_ADDRESS = frozenset({"apps", "signup"})
"""Classes that are counted by address even for a member, who must not get a higher limit."""

UNLIMITED = "none"
"""The class of monitoring routes, which have no limit."""

OFF: Mapping[str, RateRule] = dict.fromkeys(DEFAULTS, RateRule(0, 300))
"""No limits, for tests and benchmarks."""


_RULE = re.compile(r"([0-9]{1,9})/([0-9]{1,6})([smh]?)")
_LONGEST = 86_400
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600}


def rules(settings: Settings) -> Mapping[str, RateRule]:
    """Return `DEFAULTS` with the changes in the settings. Raises `SettingsError` for an unknown class or an invalid rule."""
    unknown = sorted(settings.limits.keys() - DEFAULTS.keys())
    if unknown:
        raise SettingsError(
            f"settings: limits: unknown class of requests {unknown[0]!r}; choose one of {', '.join(DEFAULTS)}"
        )
    chosen = {**DEFAULTS, **{name: _rule(name, text) for name, text in settings.limits.items()}}
    return chosen if settings.rate_limits else OFF


def _rule(name: str, text: str) -> RateRule:
    if text == "off":
        return RateRule(0, 300)
    found = _RULE.fullmatch(text)
    seconds = int(found[2]) * _UNITS[found[3]] if found else 0
    if found is None or not int(found[1]) or not 1 <= seconds <= _LONGEST:
        raise SettingsError(
            f"settings: limits.{name} must be requests per period of at most a day, such as 300/5m"
            f" (s, m or h), or off (got {text!r})"
        )
    return RateRule(int(found[1]), seconds)


class Limiter(Protocol):
    """Counts the requests of each caller in each class of requests, and limits them by the rule of the class."""

    @property
    def classes(self) -> frozenset[str]:
        """All known classes of requests, limited or not."""

    @property
    def refused(self) -> Mapping[str, int]:
        """Requests refused by this process since its start, by class."""

    async def take(self, key: RateKey, cost: int = 1) -> RateWindow | None:
        """Count a request, unless it is refused. Return None if its class is not limited."""

    async def give_back(self, key: RateKey, window: RateWindow) -> None:
        """Undo the count of a request that `take` counted in this window, if the window has not ended."""


class _Counts:
    __slots__ = ("reset", "rule", "used")

    def __init__(self, rule: RateRule) -> None:
        self.rule = rule
        self.reset = 0
        self.used: dict[int | str, int] = {}


class MemoryLimiter:
    """A `Limiter` in memory, for a single process."""

    def __init__(
        self, rules: Mapping[str, RateRule], *, clock: Callable[[], float] = time.time, capacity: int = 100_000
    ) -> None:
        if any(rule.limit < 0 or rule.seconds < 1 for rule in rules.values()):
            raise ValueError(
                "a rate limit must have at least 0 requests (0: unlimited) and a period of at least 1 second"
            )
        self.classes = frozenset(rules)
        self.refused: Counter[str] = Counter()
        self._counts = {name: _Counts(rule) for name, rule in rules.items() if rule.limit}
        self._clock = clock
        self._capacity = capacity

    async def take(self, key: RateKey, cost: int = 1) -> RateWindow | None:
        counts = self._counts.get(key.limit_class)
        if counts is None:
            return None
        now, (limit, seconds) = self._clock(), counts.rule
        # The clock may have been set back by more than a window.
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
        counts = self._counts.get(key.limit_class)
        if counts is not None and counts.reset == window.reset and counts.used.get(key.who):
            counts.used[key.who] -= 1


def headers(window: RateWindow) -> list[RawHeader]:
    """Return the three X-RateLimit headers.

    Mastodon.py sleeps until the time in X-RateLimit-Reset, so it must be in the future.
    """
    return [
        (b"x-ratelimit-limit", b"%d" % window.limit),
        (b"x-ratelimit-remaining", b"%d" % window.remaining),
        (b"x-ratelimit-reset", _iso(window.reset)),
    ]


@lru_cache(maxsize=64)
def _iso(moment: int) -> bytes:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()


def counted_as(caller: Caller) -> int | str | None:
    """Return the key of a caller for rate limits: a member, a server key, or a key that acts for a member; None for others."""
    if not caller.key:
        return caller.member_id
    return f"key {caller.app_id}" if caller.member_id is None else f"key {caller.app_id} for {caller.member_id}"


def address_of(scope: Scope) -> str:
    """Return the key of the client's address for rate limits; empty if it is unknown."""
    client = scope.get("client")
    return address_key(client[0]) if client else ""


@lru_cache(maxsize=4096)
def address_prefix(address: str) -> str:
    """Return the prefix of an `address_key`: the /24 of an IPv4 address; the key of an IPv6 address is a /64 prefix already.

    Hashes of these prefixes are stored with logins, so the widths must not change.
    """
    try:
        return str(ipaddress.IPv4Network((address, 24), strict=False))
    except ValueError:
        return address


@lru_cache(maxsize=4096)
def site_key(address: str) -> str:
    """Return the /48 prefix, the size of a site, for the `address_key` of an IPv6 address. Other keys are unchanged."""
    try:
        return str(ipaddress.IPv6Network(address).supernet(new_prefix=48))
    except ValueError:
        return address


@lru_cache(maxsize=4096)
def address_key(address: str) -> str:
    """Return the key of an IP address: the address or, for IPv6, its /64 prefix, which is the size of a household."""
    parsed = parse_address(address)
    if parsed is None:
        return address
    return str(ipaddress.IPv6Network((parsed, 64), strict=False)) if parsed.version == 6 else str(parsed)


_WAYS = 4
_USED_BITS = 24
_USED = (1 << _USED_BITS) - 1


class SharedLimiter:
    """A `Limiter` shared by several processes. Each counts in its own table in shared memory, process `slot` in `tables[slot]`."""

    def __init__(
        self,
        rules: Mapping[str, RateRule],
        tables: Sequence[memoryview],
        slot: int,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.classes = frozenset(rules)
        self.refused: Counter[str] = Counter()
        self._rules = {name: rule for name, rule in rules.items() if rule.limit}
        self._mine = tables[slot]
        self._theirs = [table for at, table in enumerate(tables) if at != slot]
        self._sets = len(self._mine) // (2 * _WAYS)
        self._clock = clock

    async def take(self, key: RateKey, cost: int = 1) -> RateWindow | None:
        rule = self._rules.get(key.limit_class)
        if rule is None:
            return None
        now = self._clock()
        reset = (int(now) // rule.seconds + 1) * rule.seconds
        whom = _hash(key)
        first = whom % self._sets * 2 * _WAYS
        index = self._index(first, whom, int(now))
        own = self._used(self._mine, index, whom, reset)
        used = own + sum(self._found(table, first, whom, reset) for table in self._theirs)
        if used + cost > rule.limit:
            self.refused[key.limit_class] += 1
            return RateWindow(rule.limit, max(0, rule.limit - used), reset, max(1.0, reset - now))
        # A process that reads between the next two writes sees a wrong count for a moment.
        self._mine[index + 1] = reset << _USED_BITS | min(own + cost, _USED)
        self._mine[index] = whom
        return RateWindow(rule.limit, rule.limit - used - cost, reset)

    async def give_back(self, key: RateKey, window: RateWindow) -> None:
        whom = _hash(key)
        index = self._index(whom % self._sets * 2 * _WAYS, whom, int(self._clock()))
        if self._used(self._mine, index, whom, window.reset):
            self._mine[index + 1] -= 1

    def _index(self, first: int, whom: int, now: int) -> int:
        """Return the index of a caller's entry in this process's table. If it has none, return the entry that expires first."""
        mine = self._mine
        indexes = range(first, first + 2 * _WAYS, 2)
        for index in indexes:
            if mine[index] == whom:
                return index
        return min(indexes, key=lambda index: max(now, mine[index + 1] >> _USED_BITS))

    def _found(self, table: memoryview, first: int, whom: int, reset: int) -> int:
        return max(self._used(table, index, whom, reset) for index in range(first, first + 2 * _WAYS, 2))

    def _used(self, table: memoryview, index: int, whom: int, reset: int) -> int:
        counted: int = table[index + 1]
        return counted & _USED if table[index] == whom and counted >> _USED_BITS == reset else 0


@lru_cache(maxsize=16_384)
def _hash(key: RateKey) -> int:
    """Return a positive number, identical in every process."""
    return int.from_bytes(blake2b(repr(tuple(key)).encode(), digest_size=8).digest()) >> 1 or 1
