"""Merge increments into the next version of the cloud, counting each use once.

The merging process holds the lock; if another has taken it, the store refuses the version. Marks of counted uses are written with
the version, so a use is counted exactly once even if it is repeated, late, or interrupted by a crash. The tally is pure arithmetic
whose result does not depend on the order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from shoal.graph.schema import tag_id
from shoal.tagcloud import cloud as clouds
from shoal.tagcloud import heat
from shoal.tagcloud.cloud import ORDERS, WINDOWS, Cloud, empty_row, entry, leader, ranks, together
from shoal.tagcloud.contract import (
    DAY_MS,
    AuthorKey,
    CloudStore,
    Day,
    Head,
    Increment,
    Merge,
    TagRow,
    TagRule,
    Use,
    pack_marks,
    unpack_marks,
)
from shoal.tagcloud.heat import COLD, Heat, Ranking, Rankings, heats_of, joined
from shoal.tagcloud.updates import VersionUpdates

_MOST_FORMS = 16
"""Spellings of a tag that are counted separately; rarer ones are dropped."""
TagDay = tuple[int, int]


class TagDelta:
    """The changes that some uses make to the row of one tag. `days` omits days before the horizon (see `tag_deltas`)."""

    __slots__ = ("days", "forms", "heats", "n", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.n = 0
        self.heats = [COLD, COLD, COLD]
        self.forms: dict[str, int] = {}
        self.days: dict[int, int] = {}


class TagDeltas(NamedTuple):
    """The changes that some uses make: to tags by id, and to counts by tag, day and member."""

    tags: dict[int, TagDelta]
    authors: dict[AuthorKey, int]


def tag_deltas(uses: Iterable[Use], horizon: int) -> TagDeltas:
    """Sum up the changes that uses make to the stored counts of tags.

    `horizon` is the first day (since 1970-01-01 UTC) whose authors are kept.
    """
    by_name: dict[str, tuple[int, TagDelta]] = {}
    authors: dict[AuthorKey, int] = {}
    for use in uses:
        day, author = use.day, use.author_id
        recent = day >= horizon
        once = heats_of(use.written)
        for name, form, by in use.changes:
            known = by_name.get(name)
            if known is None:
                known = by_name[name] = (tag_id(name), TagDelta(name))
            id_, tag = known
            tag.n += by
            tag.forms[form] = tag.forms.get(form, 0) + by
            heats = tag.heats
            # Both heats usually have the same step. Adding their values is then faster than `joined`.
            for window, (use_heat, stored) in enumerate(zip(once, heats, strict=True)):
                if use_heat.step == stored.step:
                    heats[window] = Heat(stored.value + by * use_heat.value, use_heat.step)
                else:
                    heats[window] = joined(stored, Heat(by * use_heat.value, use_heat.step))
            if recent:
                tag.days[day] = tag.days.get(day, 0) + by
                key = (id_, day, author)
                authors[key] = authors.get(key, 0) + by
    return TagDeltas(dict(by_name.values()), authors)


def shrinking(found: TagDeltas) -> set[TagDay]:
    """Return the tags and days on which a member's uses decrease, so that the most active member may have changed."""
    return {(tag, day) for (tag, day, _), by in found.authors.items() if by < 0}


def authors_after(found: TagDeltas, before: Mapping[AuthorKey, int]) -> dict[AuthorKey, int]:
    return {key: before.get(key, 0) + by for key, by in found.authors.items() if by}


def rows_after(
    found: TagDeltas,
    rows: Mapping[int, TagRow],
    before: Mapping[AuthorKey, int],
    after: Mapping[AuthorKey, int],
    author_counts: Mapping[AuthorKey, int],
    horizon: int,
) -> dict[int, TagRow]:
    """Return the new rows of all tags that the changes concern.

    Args:
        before, after: The uses of those authors whose uses changed, before and after the merge.
        author_counts: The uses of all authors on the days in `shrinking`, before the merge.
    """
    members: dict[TagDay, int] = {}
    loudest: dict[TagDay, int] = {}
    for key, n in after.items():
        day = key[:2]
        members[day] = members.get(day, 0) + (n > 0) - (before.get(key, 0) > 0)
        if n > loudest.get(day, 0):
            loudest[day] = n
    shrunk = shrinking(found)
    for key, n in author_counts.items():
        if key not in after and n > loudest.get(key[:2], 0):
            loudest[key[:2]] = n

    def moved(id_: int, tag: TagDelta, row: TagRow) -> dict[int, Day]:
        days = {day: earlier for day, earlier in row.days.items() if day >= horizon}
        for day, by in tag.days.items():
            earlier = days.pop(day, _QUIET)
            voice = loudest.get((id_, day), 0)
            if (id_, day) not in shrunk:
                voice = max(earlier.loudest, voice)
            now = Day(earlier.uses + by, earlier.members + members.get((id_, day), 0), voice)
            if now != _QUIET:
                days[day] = now
        return days

    return {
        id_: TagRow(
            id_,
            tag.name,
            row.n + tag.n,
            _summed(row.heats, tag.heats),
            _forms(row.forms, tag.forms),
            moved(id_, tag, row),
        )
        for id_, tag in found.tags.items()
        for row in (rows.get(id_) or empty_row(id_, tag.name),)
    }


_QUIET = Day()


def _summed(one: tuple[Heat, Heat, Heat], other: list[Heat]) -> tuple[Heat, Heat, Heat]:
    hour, day, week = map(joined, one, other)
    return hour, day, week


def _forms(forms: Mapping[str, int], by: Mapping[str, int]) -> dict[str, int]:
    """Add counts of spellings, and return the most used. A count may be below 0 if a removal arrived before its addition."""
    every = dict(forms)
    for form, more in by.items():
        n = every.get(form, 0) + more
        if n:
            every[form] = n
        else:
            every.pop(form, None)
    if len(every) <= _MOST_FORMS:
        return every
    return dict(sorted(every.items(), key=lambda form: (-abs(form[1]), form[0]))[:_MOST_FORMS])


_BUCKETS = 16
"""Buckets that are cached: repeats arrive soon, if at all."""


class Sizes(NamedTuple):
    shown: int = 250
    reserve: int = 1_000


SIZES = Sizes()


class MergedTags:
    """Groups of tags that count together, each under the name of its merge target."""

    def __init__(self, rules: Mapping[str, TagRule]) -> None:
        self._rules = rules
        self._followers: dict[str, list[str]] = {}
        for rule in rules.values():
            if rule.target:
                self._followers.setdefault(rule.target, []).append(rule.name)

    def of(self, names: Iterable[str]) -> dict[int, tuple[str, list[str]]]:
        """Return the merge groups of these tags, by the target's id: its name, and the names of the tags merged into it."""
        leaders = {leader(name, self._rules) for name in names}
        return {tag_id(name): (name, self._followers.get(name, [])) for name in leaders}


class Amendment(NamedTuple):
    """An operator's change: tag rules, and recomputed counts of tags (`rows`).

    For the tags and days in `rows`, `authors` has the number of uses by each author.
    """

    rules: Sequence[TagRule] = ()
    rows: Sequence[TagRow] = ()
    authors: Mapping[AuthorKey, int] = {}


NOTHING = Amendment()


class Merger:
    """Merges increments into a store. `clock` returns Unix milliseconds. Each new version is published as an update."""

    def __init__(
        self,
        store: CloudStore,
        clock: Callable[[], int],
        sizes: Sizes = SIZES,
        updates: VersionUpdates | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._sizes = sizes
        self._updates = updates or VersionUpdates()
        self._marks: dict[int, set[int]] = {}
        self._marked_to = 0

    async def merge(
        self,
        head: Head,
        increments: Sequence[Increment],
        *,
        part: Increment | None = None,
        holder: bytes = b"",
        complete_to: int = 0,
        amendment: Amendment = NOTHING,
    ) -> Head:
        """Write the version after `head`, and return its head. After `Overtaken` or `Unavailable`, nothing was written.

        Args:
            part: Some uses of an increment that is too large for one merge. Its id is not recorded as merged. If `part` is
                given alone and its uses are all merged already, no version is written.
            holder: The fencing token of the lock (`CloudStore.write`).
            amendment: Its rows replace the stored rows, including all earlier merges, so do not combine rows with increments.
        """
        now = self._clock()
        fresh = await self._fresh(head.version, [*increments, part] if part else increments)
        if not (fresh or increments or amendment != NOTHING):
            return head
        horizon = now // DAY_MS - clouds.DAYS
        found = tag_deltas(fresh, horizon)
        rows, authors = await self._counted(found, horizon)
        rows |= {row.id: row for row in amendment.rows}
        authors |= amendment.authors
        rules = await self._store.rules()
        known = {**rules, **{rule.name: rule for rule in amendment.rules}}
        touched = _touched(amendment.rules, rules).union(row.name for row in rows.values())
        state = _State(self._store, self._sizes, now, MergedTags(known), rows)
        shown, rankings = await state.after(head, touched)
        merge = Merge(
            head=Head(head.version + 1, now, max(head.complete_to, complete_to), clouds.encode(shown), rankings),
            increments=[increment.id for increment in increments],
            marks=_by_bucket(fresh),
            rows=list(rows.values()),
            authors=authors,
            before_day=horizon,
            rules=amendment.rules,
        )
        try:
            await self._store.write(merge, holder)
        except BaseException:
            # The write may have succeeded despite the error; the cached marks would then lack its uses.
            self._marks.clear()
            raise
        self._remember(fresh, merge.head.version)
        await self._updates.publish(merge.head.version)
        return merge.head

    async def _fresh(self, version: int, increments: Iterable[Increment]) -> list[Use]:
        """Return the uses that no version contains yet, each once."""
        await self._recall(version, {use.bucket for increment in increments for use in increment.uses})
        fresh: dict[int, Use] = {}
        for increment in increments:
            for use in increment.uses:
                if use.mark not in self._marks[use.bucket]:
                    fresh.setdefault(use.mark, use)
        return list(fresh.values())

    async def _recall(self, version: int, buckets: Collection[int]) -> None:
        known = {bucket for bucket in buckets if bucket in self._marks}
        found = await self._store.marks(set(buckets) - known, 0)
        if version != self._marked_to:
            newer = await self._store.marks(self._marks.keys(), self._marked_to)
            for bucket, packed in newer.items():
                self._marks[bucket].update(*map(unpack_marks, packed))
        for bucket in set(buckets) - known:
            self._marks[bucket] = set().union(*map(unpack_marks, found.get(bucket, ())))
        self._marked_to = version
        for bucket in sorted(self._marks.keys() - buckets)[: max(0, len(self._marks) - _BUCKETS)]:
            del self._marks[bucket]

    def _remember(self, fresh: Iterable[Use], version: int) -> None:
        for use in fresh:
            self._marks[use.bucket].add(use.mark)
        self._marked_to = version

    async def _counted(self, found: TagDeltas, horizon: int) -> tuple[dict[int, TagRow], dict[AuthorKey, int]]:
        if not found.tags:
            return {}, {}
        before = await self._store.tags(found.tags)
        authors = await self._store.authors(found.authors)
        shrunk = shrinking(found)
        author_counts = await self._store.author_counts(shrunk) if shrunk else {}
        after = authors_after(found, authors)
        return rows_after(found, before, authors, after, author_counts, horizon), after


class _State:
    """The rankings and the cloud of the next version. `rows` are the new counts of the changed tags, by tag id."""

    def __init__(
        self, store: CloudStore, sizes: Sizes, now: int, groups: MergedTags, rows: Mapping[int, TagRow]
    ) -> None:
        self._store = store
        self._sizes = sizes
        self._now = now
        self._groups = groups
        self._rows = rows
        # Counts of tags by tag id. The counts of a tag include those of the tags that were merged into it.
        self._joined: dict[int, TagRow] = {}

    async def after(self, head: Head, touched: Collection[str]) -> tuple[Cloud, bytes]:
        rankings = heat.decode(head.state)
        before = clouds.decode(head.cloud)
        await self._join(touched)
        for row in list(self._joined.values()):
            self._rank(rankings, row)
        for name in touched:
            if (id_ := tag_id(name)) not in self._joined:
                # The uses of this tag are now counted under another tag.
                for order in ORDERS:
                    rankings.of(order).ranks.pop(id_, None)
        for order in ORDERS:
            if rankings.of(order).runs_dry(self._sizes.shown):
                await self._refill(rankings, order)
        orders = {order: rankings.of(order).first(self._sizes.shown) for order in ORDERS}
        shown_ids = dict.fromkeys(id_ for ids in orders.values() for id_ in ids)
        reused = {id_: before.entries[id_] for id_ in shown_ids if id_ in before.entries and id_ not in self._joined}
        # Read the tags that were not in the previous cloud.
        if missing := [id_ for id_ in shown_ids if id_ not in reused and id_ not in self._joined]:
            await self._join([row.name for row in (await self._store.tags(missing)).values()])
        entries = {
            id_: reused.get(id_) or entry(self._joined[id_])
            for id_ in shown_ids
            if id_ in reused or id_ in self._joined
        }
        return Cloud(entries, {order: [id_ for id_ in ids if id_ in entries] for order, ids in orders.items()}), (
            heat.encode(rankings)
        )

    async def _join(self, names: Iterable[str]) -> None:
        """Compute the combined rows of the groups that these tags belong to."""
        groups = self._groups.of(names)
        ids = groups.keys() | {tag_id(name) for _, followers in groups.values() for name in followers}
        others = [id_ for id_ in ids if id_ not in self._rows]
        stored = await self._store.tags(others) if others else {}
        rows = {**stored, **{id_: self._rows[id_] for id_ in ids if id_ in self._rows}}
        for id_, (name, followers) in groups.items():
            with_it = [rows[tag_id(other)] for other in followers if tag_id(other) in rows]
            self._joined[id_] = together(rows.get(id_) or empty_row(id_, name), with_it)

    def _rank(self, rankings: Rankings, row: TagRow) -> None:
        for order, rank in zip(ORDERS, ranks(row, self._now), strict=True):
            rankings.of(order).move(row.id, rank, self._sizes.reserve)

    async def _refill(self, rankings: Rankings, order: str) -> None:
        """Refill a ranking from the store, because tags dropped from it may belong to its top now."""
        window = WINDOWS["day"] if order == "rising" else WINDOWS.get(order, -1)
        most = self._sizes.reserve
        found = await self._store.top(window, most)
        await self._join([row.name for row in found])
        fresh = rankings.by_order[order] = Ranking()
        at = ORDERS.index(order)
        for row in self._joined.values():
            fresh.move(row.id, ranks(row, self._now)[at], len(self._joined))
        if len(found) == most:
            fresh.floor = ranks(found[-1], self._now)[at]
            fresh.ranks = {id_: rank for id_, rank in fresh.ranks.items() if rank > fresh.floor}


def _touched(rules: Iterable[TagRule], stored: Mapping[str, TagRule]) -> set[str]:
    about = {rule.name for rule in rules}
    about |= {rule.target for rule in rules if rule.target}
    about |= {stored[rule.name].target for rule in rules if rule.name in stored and stored[rule.name].target}
    return about


def _by_bucket(uses: Iterable[Use]) -> dict[int, bytes]:
    found: dict[int, list[int]] = {}
    for use in uses:
        found.setdefault(use.bucket, []).append(use.mark)
    return {bucket: pack_marks(marks) for bucket, marks in found.items()}
