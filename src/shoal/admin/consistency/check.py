"""Consistency check of the invariants in `report.PROMISES`, for the whole network or a sample.

The full check reads the whole store into packed arrays and compares these. While a network is in use, the arrays do not
show a single moment. If there are findings, a second pass follows, and only findings of both passes are reported.

The sampled check reads a few random members and all data around them, so its cost does not depend on the size of the
network. It cannot prove that the network is consistent. A sample of some hundred members finds an error that affects
one member in a hundred. It checks only the newest entries of each list.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.admin.consistency import invariants, scan
from shoal.admin.consistency.derived import (
    SearchRows,
    TagCounts,
    check_homes,
    constant,
    recount_tags,
    reindex,
    settled_difference,
    tag_difference,
)
from shoal.admin.consistency.invariants import MOST, Found
from shoal.admin.consistency.media import YOUNG_SECONDS, MediaFiles, repair_media
from shoal.admin.consistency.records import (
    FollowHistories,
    FreshIds,
    KindIndex,
    UnusedApps,
    index_again,
    merge_histories,
    renew_tickets,
    schedule_app_deletions,
)
from shoal.admin.consistency.repair import miscount
from shoal.admin.consistency.repair import repair as repair_rows
from shoal.admin.consistency.tag_spellings import TagSpellings, repair_spellings
from shoal.admin.contract import AnyNetwork
from shoal.admin.report import EXAMPLES, PROMISES, CheckReport, Finding, Invariant, Progress, nothing
from shoal.core.blocklists import CanonicalEmailBlock, EmailDomainBlock, IpBlock, NameBlock, key_text
from shoal.core.credentials import ChallengeKey, Login
from shoal.core.email import ContactSalt
from shoal.core.external_ids import ExternalLink
from shoal.core.ids import shard_of
from shoal.core.kinds import PostKind
from shoal.core.model import App, Media, Member, Post, Share
from shoal.core.ranking.preferences import FeedPreferences, SeenPosts
from shoal.core.reactions import StoredReactions
from shoal.graph.access import association
from shoal.graph.contract import MAX_TIME, Assoc, AssocRow, Cursor, Graph, Reader, Store
from shoal.graph.kinds import all_kinds
from shoal.graph.media import key_of_files
from shoal.graph.schema import (
    ASSOC_TYPES,
    POSTED,
    AnyNode,
    AssocType,
    Key,
    challenge_key_key,
    contact_salt_key,
    email_block_key,
    email_domain_block_key,
    email_key,
    external_id_key,
    ip_block_key,
    kind_key,
    name_block_key,
    preferences_key,
    reactions_key,
    seen_key,
    server_key_key,
    share_key,
    user_name_key,
)
from shoal.search.indexing import member_row

_KEY_OF: Mapping[type[AnyNode], Callable[[Any], Key | None]] = {
    Media: key_of_files,
    Member: lambda member: user_name_key(member.name),
    Login: lambda login: email_key(login.email) if login.email else None,
    App: lambda app: server_key_key(app.name) if app.server_key else None,
    ExternalLink: lambda link: external_id_key(link.external) if link.member_id else None,
    Share: lambda share: share_key(share.author_id, shard_of(share.author_id), share.post_id),
    EmailDomainBlock: lambda block: email_domain_block_key(block.domain),
    CanonicalEmailBlock: lambda block: email_block_key(block.digest),
    IpBlock: lambda block: ip_block_key(block.network),
    NameBlock: lambda block: name_block_key(key_text(block.word, part=block.part)),
    FeedPreferences: lambda feed_preferences: preferences_key(feed_preferences.member_id),
    ContactSalt: lambda _salt: contact_salt_key(),
    ChallengeKey: lambda _key: challenge_key_key(),
    SeenPosts: lambda seen: seen_key(seen.member_id),
    PostKind: lambda kind: kind_key(kind.name),
    StoredReactions: lambda _: reactions_key(),
}
"""The unique key of each type of object. It must refer to the object; the key of a login refers to its member."""

_PATIENCE_SECONDS = 3_600.0
_ROUNDS = 4
"""Maximum rounds of a repair. A further round is needed if a repair reveals another error."""
_KEYS_AT_ONCE = 256

_REMEDIES = (
    repair_rows,
    repair_spellings,
    recount_tags,
    reindex,
    repair_media,
    schedule_app_deletions,
    renew_tickets,
    merge_histories,
    index_again,
)
"""Repair functions. Each receives all findings and repairs only those of its kind."""

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
    """Check all stored data and the home timelines; with `repair`, fix all findings.

    `sample` is the number of random home timelines to check (None: all) among the materialized ones, which push keeps up to date.
    If there are none, the timelines of a sample of members are checked. `read_only` is for a store that another process serves:
    the check then processes no events and skips timelines, media files, the tag cloud and the search index. Orphaned media files
    are reported once they are older than `young` seconds.
    """
    began = time.monotonic()
    first = await _confirmed(network, sample, progress, read_only=read_only, young=young)
    report = await _report(network, first, read_only=read_only)
    if repair and not report.clean:
        report.repaired = await _repaired(network, first, sample, progress, young)
        left = sum(found.wrong for found in first.values()) - report.repaired
        if left:
            report.notes.append(f"{left} findings could not be repaired or are new: run another check to list them")
    report.seconds = time.monotonic() - began
    return report


async def _repaired(network: AnyNetwork, look: Look, sample: int | None, progress: Progress, young: float) -> int:
    """Repair and check again until there are no findings, or a few times at most. Return the number of repaired findings."""
    before = sum(found.wrong for found in look.values())
    for _ in range(_ROUNDS):
        findings = [finding for found in look.values() for finding in found.findings]
        if not findings:
            break
        for remedy in _REMEDIES:
            await remedy(network, findings)
        look = await _confirmed(network, sample, progress, read_only=False, young=young)
    return max(0, before - sum(found.wrong for found in look.values()))


async def _confirmed(
    network: AnyNetwork, sample: int | None, progress: Progress, *, read_only: bool, young: float
) -> Look:
    """Return the findings that occur in both of two passes. The check of timelines needs no second pass."""
    stored, objects, counts = await _check_once(network, progress, read_only=read_only, young=young)
    if any(found.wrong for found in stored.values()):
        again, objects, counts = await _check_once(network, progress, read_only=read_only, young=young)
        stored = {name: _in_both(stored[name], again[name]) for name in stored if name in again}
        stored["I2"] = await constant(stored["I2"], lambda finding: miscount(network, finding))
        if not read_only:
            stored["cloud"] = await constant(
                stored["cloud"], lambda finding: tag_difference(network, finding.tag), network
            )
    if read_only:
        return stored
    return {"I1": await check_homes(network, objects, counts, sample, progress), **stored}


def _in_both(first: Found, second: Found) -> Found:
    known = set(first.findings)
    confirmed = [finding for finding in second.findings if finding in known]
    return Found(second.checked, second.wrong if second.wrong > MOST else len(confirmed), confirmed)


async def _check_once(
    network: AnyNetwork, progress: Progress, *, read_only: bool, young: float
) -> tuple[dict[str, Found], scan.Objects, scan.Counts]:
    if not read_only:
        await network.settle(_PATIENCE_SECONDS)
    keys, counts_of_tags, rows = _Keys(network.store), TagCounts(), SearchRows(network)
    spellings = TagSpellings()
    index = KindIndex(await all_kinds(network.store))
    searched = not read_only and await rows.is_filled()
    files, clients, histories, fresh = MediaFiles(network, young), UnusedApps(), FollowHistories(network), FreshIds()

    async def watch(page: Sequence[AnyNode]) -> None:
        counts_of_tags.take(page)
        spellings.take(page)
        files.take(page)
        clients.take(page)
        fresh.take(page)
        index.take(page)
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
    # In a thread, because sorting a million rows would block requests.
    found = await asyncio.to_thread(_compared, objects, links, counts, blocks)
    found["keys"] = Found(keys.checked, len(keys.findings), keys.findings)
    found["apps"] = clients.compared(links)
    found["agenda"], found["ids"] = await asyncio.to_thread(lambda: (fresh.tickets(links), fresh.shared(links)))
    found["histories"] = await asyncio.to_thread(histories.compared, links)
    found["kinds"] = await asyncio.to_thread(index.compared, links)
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
    """Checks that each unique key of an object refers to its owner. Keys of deleted objects are not checked."""

    def __init__(self, store: Reader) -> None:
        self._store = store
        self.checked = 0
        self.findings: list[Finding] = []

    async def watch(self, page: Sequence[AnyNode]) -> None:
        named = [
            (key, node.member_id if isinstance(node, Login) else node.id)
            for node in page
            if (key_of := _KEY_OF.get(type(node))) and (key := key_of(node)) is not None
        ]
        await self._check(named)

    async def _check(self, named: Sequence[tuple[Key, int]]) -> None:
        for start in range(0, len(named), _KEYS_AT_ONCE):
            await self._check_some(named[start : start + _KEYS_AT_ONCE])
            await asyncio.sleep(0)

    async def _check_some(self, named: Sequence[tuple[Key, int]]) -> None:
        owners = await self._store.key_get([key for key, _ in named])
        self.checked += len(named)
        for key, id_ in named:
            if (owner := owners.get(key, 0)) != id_:
                words = f"the {key.space.replace('_', ' ')} key {key.name!r} does not refer to {{0}}"
                self.findings.append(Finding(words, (id_,), key=(key.space, key.name, key.shard, id_, owner)))


async def _report(network: AnyNetwork, look: Look, *, read_only: bool) -> CheckReport:
    lines = [await _line(network, name, look[name]) for name in PROMISES if name in look]
    notes = (
        ["not checked: home timelines, the tag cloud and the search index, which only the serving process has"]
        if read_only
        else []
    )
    if parked := len(await network.store.parked()):
        notes.append(f"{parked} parked jobs: their effects are missing until `shoal jobs replay`")
    return CheckReport(invariants=lines, notes=notes)


async def _line(network: AnyNetwork, name: str, found: Found) -> Invariant:
    examples = found.findings[:EXAMPLES]
    nodes = await network.store.obj_get(list({id_ for finding in examples for id_ in finding.about if id_ > 0}))
    messages = [finding.words.format(*(_name(id_, nodes) for id_ in finding.about)) for finding in examples]
    return Invariant(name=name, promise=PROMISES[name], checked=found.checked, found=found.wrong, examples=messages)


def _name(id_: int, nodes: Mapping[int, AnyNode]) -> str:
    node = nodes.get(id_)
    if id_ < 0:
        return f"tag or cell {id_}"
    if node is None:
        return f"{id_} (no such object)"
    if isinstance(node, Member):
        return f"@{node.name}"
    return f"{str(node.__struct_config__.tag).replace('_', ' ')} {id_}"


NEWEST = 100
"""Number of entries of a list that are read. If the list is longer, a wrong count is detected only if it is too small."""
_OTHER_ENDS = 20
"""Number of entries of a list for which the inverse association is checked."""
_NEIGHBORS = 64
"""Number of objects after a random id that are searched for a member."""
_DRAWS = 200
"""Maximum number of random ids that are tried. After some ids, there are only posts."""
_LINES = ("I1", "I2", "I3", "search", "lists", "keys")
_COUNTED = [atype for atype in ASSOC_TYPES.values() if atype.counted and not atype.aggregated]

Findings = dict[str, list[Finding]]


async def check_sampled(network: AnyNetwork, members: int, progress: Progress = nothing) -> CheckReport:
    """Check `members` random members. Events are processed between two passes, and only findings of both passes count."""
    began = time.monotonic()
    chance = random.Random()  # noqa: S311  # a sample guards nothing
    lines = {name: Found(0, 0, []) for name in _LINES}
    for at in range(1, members + 1):
        member = await random_member(network.store, chance)
        if member is None:
            break
        for name, found in (await _confirmed_of(network, member)).items():
            line = lines[name]
            lines[name] = Found(line.checked + 1, line.wrong + len(found), [*line.findings, *found][:EXAMPLES])
        progress("members", at, members)
    checked = [
        Invariant(
            name=name,
            promise=PROMISES[name],
            checked=found.checked,
            found=found.wrong,
            examples=[finding.words.format(*finding.about) for finding in found.findings],
        )
        for name, found in lines.items()
    ]
    return CheckReport(invariants=checked, seconds=time.monotonic() - began)


async def random_member(store: Store, chance: random.Random) -> Member | None:
    """Return a random member; None if none was found.

    The search bisects the range of ids, and chooses a half at random among those that are not empty. Therefore it finds
    members who joined on a quiet day more often than members who joined on a busy day.
    """
    for _ in range(_DRAWS):
        low, high = -1, MAX_TIME
        while high - low > 1 << 10:
            middle = (low + high) // 2
            halves = [half for half in ((low, middle), (middle, high)) if await _holds(store, *half)]
            if not halves:
                break
            low, high = chance.choice(halves)
        found = [node for node in await store.obj_scan(low, _NEIGHBORS) if isinstance(node, Member)]
        if found:
            return chance.choice(found)
    return None


async def _holds(store: Store, after: int, upto: int) -> bool:
    page = await store.obj_scan(after, 1)
    return bool(page) and page[0].id <= upto


async def _confirmed_of(network: AnyNetwork, member: Member) -> Findings:
    first = await _check_member(network, member)
    if any(first.values()):
        await network.settle()
        second = await _check_member(network, member)
        return {name: [finding for finding in found if finding in second[name]] for name, found in first.items()}
    return first


async def _check_member(network: AnyNetwork, member: Member) -> Findings:
    graph = network.effects.graph
    found: Findings = {name: [] for name in _LINES}
    owners = await graph.key_get((user_name_key(member.name),))
    if member.id not in owners.values():
        found["keys"].append(Finding(f"the name {member.name} does not refer to {{0}}", (member.id,)))
    counts = await graph.assoc_count((member.id,), _COUNTED)
    for atype in _COUNTED:
        newest = await graph.assoc_range(member.id, atype, Cursor(limit=NEWEST + 1))
        found["I2"] += _miscounted(member.id, atype, len(newest), counts[atype].get(member.id, 0))
        found["I3"] += await _one_sided(graph, member.id, atype, newest[:_OTHER_ENDS])
        if atype is POSTED:
            found["lists"] += await _not_posted(graph, member.id, newest)
    found["search"] = await _check_search(network, member)
    found["I1"] = await _check_home(network, member.id)
    return found


async def _check_home(network: AnyNetwork, member: int) -> list[Finding]:
    warm = await network.timelines.floor(member) is not None
    difference = await settled_difference(network, member)
    if not warm:
        # Remove the timeline, which the check has materialized.
        await network.timelines.drop((member,))
    return [Finding(difference, (member,))] if difference else []


def _miscounted(id1: int, atype: AssocType, listed: int, counted: int) -> list[Finding]:
    if counted == listed or min(counted, listed) > NEWEST:
        return []
    name = atype.name.replace("_", " ")
    return [Finding(f"{{0}} has {listed} associations '{name}', but the count says {counted}", (id1,))]


async def _one_sided(graph: Graph, id1: int, atype: AssocType, newest: Sequence[Assoc]) -> list[Finding]:
    if not atype.inverse:
        return []
    inverse = ASSOC_TYPES[atype.inverse]
    found = []
    for assoc in newest:
        other = await association(graph, assoc.id2, inverse, id1)
        if other is None or (other.time, other.data) != (assoc.time, assoc.data):
            words = f"{{0}} {atype.name.replace('_', ' ')} {{1}}, but the inverse association of {{1}} is missing"
            found.append(Finding(words, (id1, assoc.id2), (assoc.time,)))
    return found


async def _not_posted(graph: Graph, id1: int, newest: Sequence[Assoc]) -> list[Finding]:
    nodes = await graph.obj_get([assoc.id2 for assoc in newest])
    words = "{0} 'posted' {1}, but there is no such object"
    return [
        Finding(words, (id1, assoc.id2))
        for assoc in newest
        if not (isinstance(node := nodes.get(assoc.id2), Post | Share) and node.author_id == id1)
    ]


async def _check_search(network: AnyNetwork, member: Member) -> list[Finding]:
    index = network.effects.search.index
    if not index.keeps:
        return []
    node = (await network.effects.graph.obj_get((member.id,))).get(member.id)
    row = (await index.rows((member.id,))).get(member.id)
    if not isinstance(node, Member) or row == member_row(node):
        return []
    return [Finding("the search index is out of date for {0}", (member.id,))]
