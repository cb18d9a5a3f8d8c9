"""A few members drawn by chance, with all that is around them: it costs the same in a network of any size.

The whole check reads everything. This one cannot say that nothing is wrong; but what is wrong with one member in a hundred, a
sample of some hundreds finds. Of a list the newest entries are looked at.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from shoal.core.model import Member, Post, Share
from shoal.graph.access import association
from shoal.graph.contract import MAX_TIME, Assoc, Cursor, Graph, Store
from shoal.graph.schema import ASSOC_TYPES, POSTED, AssocType, user_name_key
from shoal.ops.checking.homes import settled_difference
from shoal.ops.checking.invariants import Found
from shoal.ops.checking.report import EXAMPLES, PROMISES, CheckReport, Finding, Invariant, Progress, nothing
from shoal.ops.network import AnyNetwork
from shoal.search.indexing import member_row

NEWEST = 100
"""Entries of a list that are read. A longer one must have a count that is greater, and is not counted through."""
_OTHER_ENDS = 20
"""Entries of a list whose other end is looked for."""
_NEIGHBOURS = 64
"""Objects after a place drawn by chance among which a member is looked for."""
_DRAWS = 200
"""Places that are drawn for a member, at most: at some there are only posts."""
_LINES = ("I1", "I2", "I3", "search", "lists", "keys")
_COUNTED = [atype for atype in ASSOC_TYPES.values() if atype.counted and not atype.tallied]

Findings = dict[str, list[Finding]]


async def check_sampled(network: AnyNetwork, members: int, progress: Progress = nothing) -> CheckReport:
    """Look at so many members; what two looks find, with all events done between them, is reported."""
    began = time.monotonic()
    chance = random.Random()  # noqa: S311  # a sample guards nothing
    lines = {name: Found(0, 0, []) for name in _LINES}
    for at in range(1, members + 1):
        member = await drawn(network.store, chance)
        if member is None:
            break
        for name, found in (await _confirmed(network, member)).items():
            line = lines[name]
            lines[name] = Found(line.checked + 1, line.wrong + len(found), [*line.findings, *found][:EXAMPLES])
        progress("members", at, members)
    return CheckReport(
        invariants=[_line(name, found) for name, found in lines.items()], seconds=time.monotonic() - began
    )


def _line(name: str, found: Found) -> Invariant:
    examples = [finding.words.format(*finding.about) for finding in found.findings]
    return Invariant(name=name, promise=PROMISES[name], checked=found.checked, found=found.wrong, examples=examples)


async def drawn(store: Store, chance: random.Random) -> Member | None:
    """Return a member drawn by chance; None where none was found.

    The span of all ids is halved again and again, and a half in which there is something is chosen. So those who joined on a day
    on which few did come more often than those who joined with many others.
    """
    for _ in range(_DRAWS):
        low, high = -1, MAX_TIME
        while high - low > 1 << 10:
            middle = (low + high) // 2
            halves = [half for half in ((low, middle), (middle, high)) if await _holds(store, *half)]
            if not halves:
                break
            low, high = chance.choice(halves)
        found = [node for node in await store.obj_scan(low, _NEIGHBOURS) if isinstance(node, Member)]
        if found:
            return chance.choice(found)
    return None


async def _holds(store: Store, after: int, upto: int) -> bool:
    page = await store.obj_scan(after, 1)
    return bool(page) and page[0].id <= upto


async def _confirmed(network: AnyNetwork, member: Member) -> Findings:
    first = await _look(network, member)
    if any(first.values()):
        await network.settle()
        second = await _look(network, member)
        return {name: [finding for finding in found if finding in second[name]] for name, found in first.items()}
    return first


async def _look(network: AnyNetwork, member: Member) -> Findings:
    graph = network.effects.graph
    found: Findings = {name: [] for name in _LINES}
    owners = await graph.key_get((user_name_key(member.name),))
    if member.id not in owners.values():
        found["keys"].append(Finding(f"the name {member.name} does not lead to {{0}}", (member.id,)))
    counts = await graph.assoc_count((member.id,), _COUNTED)
    for atype in _COUNTED:
        newest = await graph.assoc_range(member.id, atype, Cursor(limit=NEWEST + 1))
        found["I2"] += _miscounted(member.id, atype, len(newest), counts[atype].get(member.id, 0))
        found["I3"] += await _one_sided(graph, member.id, atype, newest[:_OTHER_ENDS])
        if atype is POSTED:
            found["lists"] += await _not_posted(graph, member.id, newest)
    found["search"] = await _misread(network, member)
    found["I1"] = await _strays_at_home(network, member.id)
    return found


async def _strays_at_home(network: AnyNetwork, member: int) -> list[Finding]:
    warm = await network.timelines.floor(member) is not None
    difference = await settled_difference(network, member)
    if not warm:
        # A check leaves no trace.
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
            words = f"{{0}} {atype.name.replace('_', ' ')} {{1}}, but {{1}} does not say so"
            found.append(Finding(words, (id1, assoc.id2), (assoc.time,)))
    return found


async def _not_posted(graph: Graph, id1: int, newest: Sequence[Assoc]) -> list[Finding]:
    nodes = await graph.obj_get([assoc.id2 for assoc in newest])
    words = "{0} 'posted' {1}, but there is no object that says so"
    return [
        Finding(words, (id1, assoc.id2))
        for assoc in newest
        if not (isinstance(node := nodes.get(assoc.id2), Post | Share) and node.author_id == id1)
    ]


async def _misread(network: AnyNetwork, member: Member) -> list[Finding]:
    index = network.effects.search.index
    if not index.keeps:
        return []
    node = (await network.effects.graph.obj_get((member.id,))).get(member.id)
    row = (await index.rows((member.id,))).get(member.id)
    if not isinstance(node, Member) or row == member_row(node):
        return []
    return [Finding("the search index does not have {0} as it is", (member.id,))]
