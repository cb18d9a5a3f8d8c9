"""Cached reads of the tag cloud: the newest version is kept in memory, and read again after an update on a newer one.

An update takes effect at once, or half a second after the last check. The store is also polled by reads that come ten seconds after
the last check, since updates may be lost, or one second after it while no updates are received. Denied tags are absent, and merged
tags appear as their target. While the store is away, the cached version is served.

The cloud has no version tokens by which a response could be cached. `cloud`, `sized`, `uses` and `summary` are compared instead
(`cache.dependencies.compared`). Warmth changes continuously: cached pages use values derived from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.ids import now_ms
from shoal.core.text import check_tag
from shoal.graph.cache.dependencies import compared, do_not_cache, good_until
from shoal.graph.schema import tag_id
from shoal.locks import set_within
from shoal.tagcloud import rules as ruling
from shoal.tagcloud.cloud import (
    MAX_WORDS,
    ORDERS,
    Cloud,
    CloudEntry,
    Counted,
    DailyUses,
    Shown,
    SizedTag,
    TagSummary,
    Word,
    check_words,
    decode,
    empty_row,
    entry,
    history,
    leader,
    levels,
    reasons,
    summary_of,
    together,
    uses_of,
    weight,
)
from shoal.tagcloud.contract import DAY_MS, CloudStore, TagRule
from shoal.tagcloud.merger import SIZES, MergedTags, Sizes
from shoal.tagcloud.updates import VersionUpdate, VersionUpdates

_MIN_WARMTH = 0.001
"""Minimum warmth, in uses made right now, for a tag to be in a window's cloud."""

_SERVES_MS = 10_000
_UPDATED_POLL_SECONDS = 10.0
"""Maximum time by which a lost update delays a version."""
_UPDATE_SECONDS = 0.5
"""Minimum time between two checks, so that a collector with a backlog does not cause more reads than polling."""


class _CachedCloud(NamedTuple):
    """The cached version of the cloud, when it was checked, and the time for which warmth is computed."""

    looked: int
    update: VersionUpdate | None
    """The newest update before the check; None if the store is polled."""
    confirmed: bool
    """Whether the store answered the check."""
    now: int
    version: int
    at: int
    complete_to: int
    cloud: Cloud
    rules: Mapping[str, TagRule]
    groups: MergedTags
    shown: dict[tuple[str, int], Shown]
    sized: dict[tuple[str, int], list[SizedTag]]

    def hides(self, name: str) -> bool:
        return name in self.rules and self.rules[name].denied

    def cloud_of(self, order: str, limit: int) -> Shown:
        if (order, limit) not in self.shown:
            self.shown[order, limit] = _shown(self, order, limit)
        return self.shown[order, limit]


class TagCloud:
    """Reads the tag cloud and sets the admins' tag rules. `clock` returns Unix milliseconds.

    The store is polled after `seconds` while no `updates` are received.
    """

    def __init__(
        self,
        store: CloudStore,
        updates: VersionUpdates | None = None,
        *,
        clock: Callable[[], int] = now_ms,
        seconds: float = 1.0,
        sizes: Sizes = SIZES,
    ) -> None:
        self.clock = clock
        self._store = store
        self._poll_seconds = seconds
        self._updates = updates or VersionUpdates(polling=True)
        self._sizes = sizes
        self._cached: _CachedCloud | None = None
        self._looking = asyncio.Lock()

    async def cloud(self, order: str = "all", limit: int = MAX_WORDS) -> Shown:
        """Return the top tags by uses (`all`), by warmth (`hour`, `day`, `week`), or by how unexpected the uses are (`rising`).

        Raises `InvalidInput` for another order, or a limit outside 1 to 200.
        """
        _check(order, limit)
        return await compared(partial(self._cloud, order, limit))

    async def sized(self, order: str, limit: int) -> list[SizedTag]:
        """Return the top tags of an order with their sizes. Raises as `cloud`."""
        _check(order, limit)
        return await compared(partial(self._sized, order, limit))

    async def _cloud(self, order: str, limit: int) -> Shown:
        return (await self._latest()).cloud_of(order, limit)

    async def _sized(self, order: str, limit: int) -> list[SizedTag]:
        cached = await self._latest()
        if (order, limit) not in cached.sized:
            words = cached.cloud_of(order, limit).words
            cached.sized[order, limit] = [SizedTag(word.name, word.form, word.uses, word.level) for word in words]
        return cached.sized[order, limit]

    async def tag(self, name: str) -> Counted | None:
        """Return the figures of a tag; None if it is unused or denied. Raises `InvalidInput` for an invalid tag."""
        name = check_tag(name)
        return (await self.counted((name,))).get(name)

    async def uses(self, names: Collection[str]) -> dict[str, DailyUses]:
        async def ask() -> dict[str, DailyUses]:
            return {name: uses_of(tag) for name, tag in (await self.counted(names)).items()}

        return await compared(ask)

    async def summary(self, name: str) -> TagSummary | None:
        """Return the activity of a tag; None if it is unused or denied. Raises `InvalidInput` for an invalid tag."""
        name = check_tag(name)

        async def ask() -> TagSummary | None:
            found = (await self.counted((name,))).get(name)
            return summary_of(found) if found else None

        return await compared(ask)

    def today(self) -> int:
        """Return today as days since 1970-01-01 UTC. A cached response that depends on it expires when the day ends."""
        now = self.clock()
        day = now // DAY_MS
        good_until((day + 1) * DAY_MS, now)
        return day

    async def counted(self, names: Collection[str]) -> dict[str, Counted]:
        """Return the figures of tags by canonical name, in one read of the store; merged tags have those of their target.

        Unused and denied tags are absent.
        """
        cached = await self._latest()
        groups = cached.groups.of(names)
        rows = await self._store.tags({tag_id(name) for lead, others in groups.values() for name in (lead, *others)})
        now = self.clock()
        found: dict[str, Counted] = {}
        for id_, (lead, others) in groups.items():
            with_it = [rows[tag_id(other)] for other in others if tag_id(other) in rows]
            row = together(rows.get(id_) or empty_row(id_, lead), with_it)
            if row.n > 0 and not cached.hides(lead):
                merged = tuple(sorted(others))
                found[lead] = Counted(
                    name=lead,
                    form=entry(row).form,
                    uses=row.n,
                    days=history(row.days, now),
                    reasons=reasons(row, now),
                    merged=merged,
                )
        return {name: found[lead] for name in names if (lead := leader(name, cached.rules)) in found}

    async def shown_as(self, names: Collection[str]) -> dict[str, str]:
        """Return the tag under which each of these tags is shown: itself, or its merge target. Denied tags are absent."""
        cached = await self._latest()
        leads = {name: leader(name, cached.rules) for name in names}
        return {name: lead for name, lead in leads.items() if not cached.hides(lead)}

    async def group(self, name: str) -> tuple[str, ...]:
        """Return all tags that count together with a tag, by merge rules; empty if it is denied."""
        cached = await self._latest()
        ((lead, others),) = cached.groups.of((name,)).values()
        return () if cached.hides(lead) else (lead, *others)

    async def versions(self) -> AsyncGenerator[int, None]:
        """Yield the number of the newest version, now and whenever it changes, until the updates are closed.

        Of several versions in quick succession, only the last one may be yielded. Raises `Unavailable`.
        """
        seen = -1
        while not self._updates.closed:
            arrival = self._updates.arrival
            version = (await self._latest()).version
            if version != seen:
                seen = version
                yield version
            await set_within(arrival, _UPDATE_SECONDS)

    async def rules(self) -> list[TagRule]:
        return sorted((await self._store.rules()).values(), key=lambda rule: rule.name)

    async def rule(self, decide: ruling.Decide) -> TagRule:
        """Set the tag rule that `decide` derives from the current rules. Raises `InvalidInput` if `decide` does."""
        rule = await ruling.set_rule(self._store, decide, self._updates, self.clock, self._sizes)
        # A read that began before the rule was stored must not be cached after it.
        async with self._looking:
            self._cached = None
        return rule

    async def _latest(self) -> _CachedCloud:
        # The tag cloud has no version token, so a cached response could not be invalidated.
        do_not_cache()
        if (cached := self._fresh()) is not None:
            return cached
        async with self._looking:
            # Another task may have refreshed the cached cloud while this one waited.
            if (cached := self._fresh()) is None:
                cached = self._cached = await self._look(self._cached)
        return cached

    def _fresh(self) -> _CachedCloud | None:
        if (cached := self._cached) is None:
            return None
        update = self._updates.newest()
        if update is None or not cached.confirmed:
            seconds = self._poll_seconds
        else:
            seconds = _UPDATED_POLL_SECONDS if update == cached.update else _UPDATE_SECONDS
        return cached if abs(self.clock() - cached.looked) < seconds * 1000 else None

    async def _look(self, cached: _CachedCloud | None) -> _CachedCloud:
        now = self.clock()
        # Read the update before the store, so that a later update causes another check. The first read does not
        # subscribe to updates, because the process may not read the cloud again.
        update = self._updates.newest() if cached is not None else None
        try:
            if cached is not None:
                newer = update is not None and update.version > cached.version
                if not newer and cached.version == await self._store.version():
                    return _checked(cached, now, update)
            head = await self._store.head()
            # Read the rules after the cloud, so that they are at least as new.
            rules = await self._store.rules()
        except Unavailable:
            if cached is None:
                raise
            return _checked(cached, now, update, confirmed=False)
        return _CachedCloud(
            looked=now,
            update=update,
            confirmed=True,
            now=now,
            version=head.version,
            at=head.at,
            complete_to=head.complete_to,
            cloud=decode(head.cloud),
            rules=rules,
            groups=MergedTags(rules),
            shown={},
            sized={},
        )


def _check(order: str, limit: int) -> None:
    if order not in ORDERS:
        raise InvalidInput(f"order: expected one of {', '.join(ORDERS)} (got {order!r})", field="order")
    check_words(limit)


def _checked(cached: _CachedCloud, now: int, update: VersionUpdate | None, *, confirmed: bool = True) -> _CachedCloud:
    """Record when the cached version was checked.

    The time for which warmth is computed advances only now and then, because warmth changes slowly.
    """
    cached = cached._replace(looked=now, update=update, confirmed=confirmed)
    return cached if abs(now - cached.now) < _SERVES_MS else cached._replace(now=now, shown={}, sized={})


def _shown(cached: _CachedCloud, order: str, limit: int) -> Shown:
    # Denied tags do not count towards the limit.
    chosen = [found for _, found in zip(range(limit), _entries(cached, order), strict=False)]
    sizes = levels([size for _, size in chosen])
    words = [_word(cached, cloud_entry, size, level) for (cloud_entry, size), level in zip(chosen, sizes, strict=True)]
    return Shown(order=order, version=cached.version, at=cached.at, complete_to=cached.complete_to, words=words)


def _entries(cached: _CachedCloud, order: str) -> Iterator[tuple[CloudEntry, float]]:
    for id_ in cached.cloud.orders.get(order, ()):
        cloud_entry = cached.cloud.entries[id_]
        size = weight(cloud_entry, order, cached.now)
        if (
            size >= _MIN_WARMTH
            and not cached.hides(cloud_entry.name)
            and leader(cloud_entry.name, cached.rules) == cloud_entry.name
        ):
            yield cloud_entry, size


def _word(cached: _CachedCloud, cloud_entry: CloudEntry, size: float, level: int) -> Word:
    return Word(
        name=cloud_entry.name,
        form=cloud_entry.form,
        uses=cloud_entry.n,
        days=history(cloud_entry.days, cached.now),
        reasons=reasons(cloud_entry, cached.now),
        weight=size,
        level=level,
    )
