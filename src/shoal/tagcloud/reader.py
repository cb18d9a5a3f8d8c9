"""The tag cloud as every surface reads it: the newest version is remembered, and looked up again once a second.

What an admin denied is nowhere in it, and what was merged into another tag is there as that one. While the store is away,
what is remembered goes on being shown.

The cloud has no marks by which an answer could be remembered. `cloud`, `sized`, `uses` and `summary` are compared instead
(`read_sets.compared`). Warmth moves all the time: pages that are to be remembered ask for what is made of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.text import check_tag
from shoal.graph.cache.responses import compared, good_until, not_noted
from shoal.graph.schema import tag_id
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
from shoal.tagcloud.collection import now_ms
from shoal.tagcloud.contract import DAY_MS, CloudStore, TagRule
from shoal.tagcloud.merger import SIZES, MergedTags, Sizes

_LEAST = 0.001
"""Least warmth, in uses of this moment, at which a tag is in a window's cloud."""

_SERVES_MS = 10_000


class _Held(NamedTuple):
    """The newest version as it is remembered, when it was looked up, and the moment for which warmth is computed."""

    looked: int
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
        """Whether an admin denied this tag."""
        return name in self.rules and self.rules[name].denied

    def cloud_of(self, order: str, limit: int) -> Shown:
        """Return the first tags of an order."""
        if (order, limit) not in self.shown:
            self.shown[order, limit] = _shown(self, order, limit)
        return self.shown[order, limit]


class TagCloud:
    """Reads of one cloud, and what admins say of it. `clock` gives Unix milliseconds, `seconds` how long a look holds."""

    def __init__(
        self, store: CloudStore, *, clock: Callable[[], int] = now_ms, seconds: float = 1.0, sizes: Sizes = SIZES
    ) -> None:
        self.clock = clock
        self._store = store
        self._fresh_ms = int(seconds * 1000)
        self._sizes = sizes
        self._held: _Held | None = None
        self._looking = asyncio.Lock()

    async def cloud(self, order: str = "all", limit: int = MAX_WORDS) -> Shown:
        """The first tags of an order: `all` (uses), `hour`, `day`, `week` (heat), `rising` (surprise).

        Raises `InvalidInput` for another order, or a limit outside 1 to 200.
        """
        _check(order, limit)
        return await compared(partial(self._cloud, order, limit))

    async def sized(self, order: str, limit: int) -> list[SizedTag]:
        """The first tags of an order, as they are drawn. Raises as `cloud`."""
        _check(order, limit)
        return await compared(partial(self._sized, order, limit))

    async def _cloud(self, order: str, limit: int) -> Shown:
        return (await self._latest()).cloud_of(order, limit)

    async def _sized(self, order: str, limit: int) -> list[SizedTag]:
        held = await self._latest()
        if (order, limit) not in held.sized:
            words = held.cloud_of(order, limit).words
            held.sized[order, limit] = [SizedTag(word.name, word.form, word.uses, word.level) for word in words]
        return held.sized[order, limit]

    async def tag(self, name: str) -> Counted | None:
        """A tag, in numbers; None when nobody uses it or it is denied. Raises `InvalidInput` for what is no tag."""
        name = check_tag(name)
        return (await self.counted((name,))).get(name)

    async def uses(self, names: Collection[str]) -> dict[str, DailyUses]:
        """As `counted`, without the reasons."""

        async def ask() -> dict[str, DailyUses]:
            return {name: uses_of(tag) for name, tag in (await self.counted(names)).items()}

        return await compared(ask)

    async def summary(self, name: str) -> TagSummary | None:
        """How lively a tag is; as `tag`."""
        name = check_tag(name)

        async def ask() -> TagSummary | None:
            found = (await self.counted((name,))).get(name)
            return summary_of(found) if found else None

        return await compared(ask)

    def today(self) -> int:
        """The day, in days since 1970-01-01 UTC. An answer that is made of it holds until the day ends."""
        now = self.clock()
        day = now // DAY_MS
        good_until((day + 1) * DAY_MS, now)
        return day

    async def counted(self, names: Collection[str]) -> dict[str, Counted]:
        """These tags (canonical) by the names asked for, in one read of the store; unused and denied ones are left out."""
        held = await self._latest()
        groups = held.groups.of(names)
        rows = await self._store.tags({tag_id(name) for lead, others in groups.values() for name in (lead, *others)})
        now = self.clock()
        found: dict[str, Counted] = {}
        for id_, (lead, others) in groups.items():
            with_it = [rows[tag_id(other)] for other in others if tag_id(other) in rows]
            row = together(rows.get(id_) or empty_row(id_, lead), with_it)
            if row.n > 0 and not held.hides(lead):
                merged = tuple(sorted(others))
                found[lead] = Counted(
                    name=lead,
                    form=entry(row).form,
                    uses=row.n,
                    days=history(row.days, now),
                    reasons=reasons(row, now),
                    merged=merged,
                )
        return {name: found[lead] for name in names if (lead := leader(name, held.rules)) in found}

    async def shown_as(self, names: Collection[str]) -> dict[str, str]:
        """Which tag each of these is shown as: itself, or the one that it was merged into. Denied ones are left out."""
        held = await self._latest()
        leads = {name: leader(name, held.rules) for name in names}
        return {name: lead for name, lead in leads.items() if not held.hides(lead)}

    async def group(self, name: str) -> tuple[str, ...]:
        """All tags that count together with this one; none when it is denied."""
        held = await self._latest()
        ((lead, others),) = held.groups.of((name,)).values()
        return () if held.hides(lead) else (lead, *others)

    async def rules(self) -> list[TagRule]:
        """Return the admins' rules, by name."""
        return sorted((await self._store.rules()).values(), key=lambda rule: rule.name)

    async def deny(self, name: str) -> TagRule:
        """Show a tag nowhere. Raises `InvalidInput` for one that counts as another."""
        return await self.rule(ruling.denying(name))

    async def allow(self, name: str) -> TagRule:
        """Show it again."""
        return await self.rule(ruling.allowing(name))

    async def merge(self, name: str, target: str) -> TagRule:
        """Count a tag as another. Raises `InvalidInput` for itself, for a chain, and for one that is denied."""
        return await self.rule(ruling.merging(name, target))

    async def unmerge(self, name: str) -> TagRule:
        """Count it for itself again."""
        return await self.rule(ruling.unmerging(name))

    async def rule(self, decide: ruling.Decide) -> TagRule:
        """Have a rule hold that is decided by those before it. Raises `InvalidInput` when it cannot be."""
        rule = await ruling.lay_down(self._store, decide, self.clock, self._sizes)
        # A look that began before the rule must not be remembered after it.
        async with self._looking:
            self._held = None
        return rule

    async def _latest(self) -> _Held:
        # It has no mark in the graph.
        not_noted()
        if (held := self._fresh()) is not None:
            return held
        async with self._looking:
            # Whoever waited meanwhile has the same answer.
            if (held := self._fresh()) is None:
                held = self._held = await self._look(self._held)
        return held

    def _fresh(self) -> _Held | None:
        held = self._held
        return held if held is not None and abs(self.clock() - held.looked) < self._fresh_ms else None

    async def _look(self, held: _Held | None) -> _Held:
        now = self.clock()
        try:
            if held is not None and held.version == await self._store.version():
                return _looked_at(held, now)
            head = await self._store.head()
            # Rules are read last: they are of that version or of a later one, never of an earlier.
            rules = await self._store.rules()
        except Unavailable:
            if held is None:
                raise
            return _looked_at(held, now)
        return _Held(
            now, now, head.version, head.at, head.complete_to, decode(head.cloud), rules, MergedTags(rules), {}, {}
        )


def _check(order: str, limit: int) -> None:
    if order not in ORDERS:
        raise InvalidInput(f"order: one of {', '.join(ORDERS)}, not {order!r}", field="order")
    check_words(limit)


def _looked_at(held: _Held, now: int) -> _Held:
    """Note a look. Computed words serve for a while: no warmth changes by more than a few thousandths."""
    if abs(now - held.now) < _SERVES_MS:
        return held._replace(looked=now)
    return held._replace(looked=now, now=now, shown={}, sized={})


def _shown(held: _Held, order: str, limit: int) -> Shown:
    # Only so many that are shown: what is denied makes room.
    chosen = [found for _, found in zip(range(limit), _entries(held, order), strict=False)]
    sizes = levels([heavy for _, heavy in chosen])
    words = [_word(held, one, heavy, level) for (one, heavy), level in zip(chosen, sizes, strict=True)]
    return Shown(order=order, version=held.version, at=held.at, complete_to=held.complete_to, words=words)


def _entries(held: _Held, order: str) -> Iterator[tuple[CloudEntry, float]]:
    """Yield the entries that may be shown, each with its present weight."""
    for id_ in held.cloud.orders.get(order, ()):
        one = held.cloud.entries[id_]
        heavy = weight(one, order, held.now)
        if heavy >= _LEAST and not held.hides(one.name) and leader(one.name, held.rules) == one.name:
            yield one, heavy


def _word(held: _Held, one: CloudEntry, heavy: float, level: int) -> Word:
    return Word(
        name=one.name,
        form=one.form,
        uses=one.n,
        days=history(one.days, held.now),
        reasons=reasons(one, held.now),
        weight=heavy,
        level=level,
    )
