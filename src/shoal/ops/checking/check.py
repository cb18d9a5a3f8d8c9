"""Whether what is stored is what was promised: the invariants I1 to I4 and I9 of the design, and what they rest on.

The store is read from end to end into packed arrays and compared there. On a network in use that is no single moment, so
whatever is found is looked at a second time, and only what both looks found is reported.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence

from shoal.core.model import Member, Post
from shoal.graph.contract import AssocRow, Reader
from shoal.graph.schema import AnyNode
from shoal.ops.checking import invariants, scan
from shoal.ops.checking.follow_histories import FollowHistories, remember
from shoal.ops.checking.fresh_ids import FreshIds, plan_again
from shoal.ops.checking.homes import homes
from shoal.ops.checking.invariants import MOST, Found
from shoal.ops.checking.keys import KeyTarget, names_of
from shoal.ops.checking.media_files import YOUNG_SECONDS, MediaFiles, mend
from shoal.ops.checking.repair import miscount
from shoal.ops.checking.repair import repair as put_right
from shoal.ops.checking.report import EXAMPLES, PROMISES, CheckReport, Finding, Invariant, Progress, nothing
from shoal.ops.checking.search_rows import SearchRows, look_again
from shoal.ops.checking.tag_counts import TagCounts, count_anew, still_wrong
from shoal.ops.checking.tag_spellings import TagSpellings, store_folded
from shoal.ops.checking.unused_apps import UnusedApps, plan_ends
from shoal.ops.network import AnyNetwork

_PATIENCE_SECONDS = 3_600.0
"""How long a check waits for events that are not done yet."""
_ROUNDS = 4
"""A remedy may bring another fault to light: a repair looks again, so many times."""
_KEYS_AT_ONCE = 256
_RECOUNTED = 1_000
"""Counts that are looked at once more, one by one. More than so many are no accident of the moment."""
_RECOUNTS = 8

Look = Mapping[str, Found]


async def check(
    network: AnyNetwork,
    *,
    repair: bool = False,
    sample: int | None = None,
    read_only: bool = False,
    young: float = YOUNG_SECONDS,
    progress: Progress = nothing,
) -> CheckReport:
    """Compare everything stored, and the home timelines, with what they promise; with `repair`, put right what differs.

    Of the warm timelines `sample` are looked at by chance (None: all); where none is warm, those of a sample of members.
    With `read_only`, for a store that another process serves, neither events nor timelines are touched: I1 is left out, and so are
    files. A file that belongs to nothing is told when it is not `young` (seconds) any more.
    """
    began = time.monotonic()
    first = await _confirmed(network, sample, progress, read_only=read_only, young=young)
    report = await _report(network, first, read_only=read_only)
    if repair and not report.clean:
        report.repaired = await _repaired(network, first, sample, progress, young)
        left = sum(found.wrong for found in first.values()) - report.repaired
        if left:
            report.notes.append(f"{left} findings could not be repaired, or came anew: see them with another check")
    report.seconds = time.monotonic() - began
    return report


async def _repaired(network: AnyNetwork, look: Look, sample: int | None, progress: Progress, young: float) -> int:
    """Repair, look, and repair again; how many findings are gone at the end."""
    before = sum(found.wrong for found in look.values())
    for _ in range(_ROUNDS):
        findings = [finding for found in look.values() for finding in found.findings]
        if not findings:
            break
        await put_right(network, findings)
        await store_folded(network, findings)
        await count_anew(network, findings)
        await look_again(network, findings)
        await mend(network, findings)
        await plan_ends(network, findings)
        await plan_again(network, findings)
        await remember(network, findings)
        look = await _confirmed(network, sample, progress, read_only=False, young=young)
    return max(0, before - sum(found.wrong for found in look.values()))


async def _confirmed(
    network: AnyNetwork, sample: int | None, progress: Progress, *, read_only: bool, young: float
) -> Look:
    """Return the findings that two looks agree on. The check of timelines looks twice by itself."""
    stored, objects, counts = await _look(network, progress, read_only=read_only, young=young)
    if any(found.wrong for found in stored.values()):
        again, objects, counts = await _look(network, progress, read_only=read_only, young=young)
        stored = {name: _in_both(stored[name], again[name]) for name in stored if name in again}
        stored["I2"] = await _still_miscounted(network, stored["I2"])
        if not read_only:
            stored["cloud"] = await still_wrong(network, stored["cloud"])
    if read_only:
        return stored
    return {"I1": await homes(network, objects, counts, sample, progress), **stored}


def _in_both(first: Found, second: Found) -> Found:
    known = set(first.findings)
    kept = [finding for finding in second.findings if finding in known]
    return Found(second.checked, second.wrong if second.wrong > MOST else len(kept), kept)


async def _still_miscounted(network: AnyNetwork, found: Found) -> Found:
    """A count goes up and down, so two looks may meet the same difference by chance; a broken one is always off by as much."""
    if found.wrong > _RECOUNTED:
        return found
    wrong = {finding: await miscount(network, finding) for finding in found.findings}
    for _ in range(_RECOUNTS):
        wrong = {finding: by for finding, by in wrong.items() if by}
        if wrong:
            # At random, so as not to keep step with whoever writes.
            await asyncio.sleep(random.uniform(0.0, 0.01))  # noqa: S311
            wrong = {finding: by if by == await miscount(network, finding) else 0 for finding, by in wrong.items()}
    kept = [finding for finding in found.findings if wrong.get(finding)]
    return Found(found.checked, len(kept), kept)


async def _look(
    network: AnyNetwork, progress: Progress, *, read_only: bool, young: float
) -> tuple[dict[str, Found], scan.Objects, scan.Counts]:
    if not read_only:
        await network.settle(_PATIENCE_SECONDS)
    keys, counts_of_tags, rows = _Keys(network.store), TagCounts(), SearchRows(network)
    spellings = TagSpellings()
    searched = not read_only and await rows.is_filled()
    files, clients, histories, fresh = MediaFiles(network, young), UnusedApps(), FollowHistories(network), FreshIds()

    async def watch(page: Sequence[AnyNode]) -> None:
        counts_of_tags.take(page)
        spellings.take(page)
        files.take(page)
        clients.take(page)
        fresh.take(page)
        await keys.watch(page)
        if searched:
            await rows.watch(page)

    objects = await scan.read_objects(network.store, watch, progress)

    async def watch_links(page: Sequence[AssocRow]) -> None:
        await histories.watch(page)
        await spellings.watch(page)

    links = await scan.read_links(network.store, watch_links, progress)
    counts = await scan.read_counts(network.store, progress)
    blocks = await scan.read_blocks(network.store, progress)
    # In a thread: sorting a million rows would hold up whoever is served meanwhile.
    found = await asyncio.to_thread(_compared, objects, links, counts, blocks)
    found["keys"] = Found(keys.checked, len(keys.findings), keys.findings)
    found["apps"] = clients.compared(links)
    found["agenda"], found["ids"] = await asyncio.to_thread(lambda: (fresh.tickets(links), fresh.shared(links)))
    found["histories"] = await asyncio.to_thread(histories.compared, links)
    found["spellings"] = await spellings.compared(None if read_only else network.tag_store)
    if not read_only:
        found["cloud"] = await counts_of_tags.compared(network.tag_store)
        found["files"] = await files.compared(objects, links)
    if searched:
        found["search"] = await rows.compared()
    return found, objects, counts


def _compared(objects: scan.Objects, links: scan.Links, counts: scan.Counts, blocks: scan.Blocks) -> dict[str, Found]:
    return {
        "I2": invariants.counts(links, objects, counts),
        "positions": invariants.positions(links, blocks),
        "I3": invariants.inverses(links),
        "I4": invariants.tags(links, objects),
        "lists": invariants.lists(links, objects),
        "ends": invariants.ends(links, objects),
    }


class _Keys:
    """Looks up the key of every object that has one. Keys of objects that are gone cannot be told from others."""

    def __init__(self, store: Reader) -> None:
        self._store = store
        self.checked = 0
        self.findings: list[Finding] = []

    async def watch(self, page: Sequence[AnyNode]) -> None:
        """Check the keys of these objects."""
        named = [found for node in page if (found := names_of(node)) is not None]
        for start in range(0, len(named), _KEYS_AT_ONCE):
            await self._check(named[start : start + _KEYS_AT_ONCE])
            await asyncio.sleep(0)

    async def _check(self, named: Sequence[KeyTarget]) -> None:
        owners = await self._store.key_get([key for key, _ in named])
        self.checked += len(named)
        for key, id_ in named:
            if (owner := owners.get(key, 0)) != id_:
                words = f"the {key.space.replace('_', ' ')} key {key.name!r} does not lead to {{0}}"
                self.findings.append(Finding(words, (id_,), key=(key.space, key.name, key.shard, id_, owner)))


async def _report(network: AnyNetwork, look: Look, *, read_only: bool) -> CheckReport:
    lines = [await _line(network, name, look[name]) for name in PROMISES if name in look]
    notes = (
        ["home timelines, the tag cloud and the search index are of the process that serves the store: not checked"]
        if read_only
        else []
    )
    if buried := len(await network.store.buried()):
        notes.append(f"{buried} events were set aside after failing: what follows from them has not happened")
    return CheckReport(invariants=lines, notes=notes)


async def _line(network: AnyNetwork, name: str, found: Found) -> Invariant:
    examples = found.findings[:EXAMPLES]
    nodes = await network.store.obj_get(list({id_ for finding in examples for id_ in finding.about if id_ > 0}))
    told = [finding.words.format(*(_name(id_, nodes) for id_ in finding.about)) for finding in examples]
    return Invariant(name=name, promise=PROMISES[name], checked=found.checked, found=found.wrong, examples=told)


def _name(id_: int, nodes: Mapping[int, AnyNode]) -> str:
    node = nodes.get(id_)
    if id_ < 0:
        return f"tag or cell {id_}"
    if node is None:
        return f"{id_} (no such object)"
    if isinstance(node, Member):
        return f"@{node.name}"
    return f"{'post' if isinstance(node, Post) else type(node).__name__.lower()} {id_}"
