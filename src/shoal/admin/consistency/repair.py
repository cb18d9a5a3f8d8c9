"""Repair the findings of a check. Each repair reads the store again, so an outdated finding changes nothing.

Associations are written as plain operations, which keep the given time, so a later concurrent write takes precedence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from shoal.admin.consistency.scan import LISTED, ROWS_AT_ONCE
from shoal.admin.contract import AnyNetwork
from shoal.admin.report import Finding, Triple
from shoal.core.errors import Conflict
from shoal.core.ids import shard_of
from shoal.core.model import Post, Share
from shoal.graph.bulk import FIRST
from shoal.graph.contract import AssocOp, AssocRow, Batch, Cursor
from shoal.graph.payloads.posts import encoded_thread_position
from shoal.graph.schema import (
    ASSOC_TYPES,
    CELL_OF,
    DECLARED_BY,
    IN_THREAD,
    INDEX_OF,
    INDEXED,
    PLACED_IN,
    POSTED,
    SHARES,
    TAG_OF,
    TAGGED,
    Key,
    share_key,
)

_AT_ONCE = 64
_TRIES = 5
"""Maximum number of recounts of a count that is changing."""

_KEEP_TIME = frozenset(
    {atype.number for atype in LISTED if atype not in (SHARES, IN_THREAD, DECLARED_BY)}
    | {TAGGED.number, TAG_OF.number, PLACED_IN.number, INDEXED.number, INDEX_OF.number}
)
"""Association types whose time must not change, because it is the id of an object and so the position in the list.

The data of these associations has no meaning, so a repair changes the data to take precedence.
"""


async def repair(network: AnyNetwork, findings: Sequence[Finding]) -> None:
    """Repair findings in this order: associations, keys and timelines, counts of lists, counts of authors, rank indexes."""
    for remedy in (_agree, _begin, _end, _key):
        for start in range(0, len(findings), _AT_ONCE):
            await asyncio.gather(*(remedy(network, finding) for finding in findings[start : start + _AT_ONCE]))
    if members := [finding.drop for finding in findings if finding.drop]:
        await network.timelines.drop(members)
    await recount(network, findings)
    for id1, atype in {finding.divide for finding in findings if finding.divide}:
        await network.store.block_drop(id1, atype)


async def recount(network: AnyNetwork, findings: Sequence[Finding]) -> None:
    """Correct wrong counts. Counts of posts are corrected first, because the total of an author is their sum."""
    pairs = [finding.recount for finding in findings if finding.recount]
    sums = [pair for pair in pairs if await _is_sum(network, *pair)]
    for id1, atype in [pair for pair in pairs if pair not in set(sums)] + sums:
        await _recount(network, id1, atype, of_posts=(id1, atype) in sums)


async def miscount(network: AnyNetwork, finding: Finding) -> int:
    """Return by how much a count is too high; 0 if it is correct, or if the list changed during the recount."""
    if finding.recount is None:
        return 0
    id1, atype = finding.recount
    count = _sum if await _is_sum(network, id1, atype) else _length
    stored = await _stored_count(network, id1, atype)
    counted = await count(network, id1, atype)
    # A recount takes many reads and is valid only if nothing changed during them. An equal total is no proof of that:
    # it is unchanged by a new post with a like and the deletion of another. Therefore the numbers of rows are compared
    # too.
    if await count(network, id1, atype) != counted or await _stored_count(network, id1, atype) != stored:
        return 0
    return stored - counted.n


async def _agree(network: AnyNetwork, finding: Finding) -> None:
    """Make an association and its inverse equal. The older one is overwritten; if their times are equal, the inverse is."""
    if finding.agree is None:
        return
    here, there = await _both_ends(network, finding.agree)
    if here is None or (there is not None and (there.time, there.data) > (here.time, here.data)):
        right, wrong = there, here
    else:
        right, wrong = here, there
    if right is None or (wrong is None and not right.alive):
        return
    op = AssocOp(*finding.agree, right.time, right.alive, right.data, plain=True)
    tied = wrong is not None and (wrong.time, wrong.data) == (right.time, right.data) and wrong.alive is not right.alive
    await _put_both(network, _past(op, right) if tied else op)


async def _begin(network: AnyNetwork, finding: Finding) -> None:
    if finding.begin is None:
        return
    triple, moment, data = finding.begin
    here, there = await _both_ends(network, triple)
    if triple[1] == SHARES.number:
        moment = await _share_of(network, triple[0], triple[2])
        data = moment.to_bytes(8)
    elif triple[1] in (TAG_OF.number, CELL_OF.number):
        data = (1).to_bytes(4)
    elif triple[1] == IN_THREAD.number:
        comment = (await network.store.obj_get((triple[0],))).get(triple[0])
        data = encoded_thread_position(comment) if isinstance(comment, Post) else data
    await _put_both(network, _past(AssocOp(*triple, moment, alive=True, data=data, plain=True), here, there))


async def _share_of(network: AnyNetwork, member_id: int, post_id: int) -> int:
    key = share_key(member_id, shard_of(member_id), post_id)
    found = (await network.store.key_get((key,))).get(key, 0)
    if found:
        return found
    posted = await network.store.assoc_range(member_id, POSTED, Cursor(limit=ROWS_AT_ONCE))
    nodes = await network.store.obj_get([entry.id2 for entry in posted])
    return next((n.id for n in nodes.values() if isinstance(n, Share) and n.post_id == post_id), 0)


async def _end(network: AnyNetwork, finding: Finding) -> None:
    if finding.end is None:
        return
    here, there = await _both_ends(network, finding.end)
    stored = here or there
    if stored is not None:
        # If the type has a history, the data of a tombstone would be read as this history, so leave it empty.
        data = b"" if ASSOC_TYPES[finding.end[1]].history else stored.data
        op = AssocOp(*finding.end, stored.time, alive=False, data=data, plain=True)
        await _put_both(network, _past(op, here, there))


async def _key(network: AnyNetwork, finding: Finding) -> None:
    """Make a unique key refer to its object, unless it refers to another existing object."""
    if finding.key is None:
        return
    space, name, shard, owner, holder = finding.key
    if holder and await network.store.obj_get((holder,)):
        return
    batch = Batch(shard)
    if holder:
        batch.key_del(Key(shard, space, name), holder)
        await network.store.commit(batch)
        batch = Batch(shard)
    batch.key_add(Key(shard, space, name), owner)
    await network.store.commit(batch)


async def _both_ends(network: AnyNetwork, triple: Triple) -> tuple[AssocRow | None, AssocRow | None]:
    id1, atype, id2 = triple
    inverse = ASSOC_TYPES[atype].inverse
    return await _stored(network, triple), await _stored(network, (id2, inverse, id1)) if inverse else None


async def _stored(network: AnyNetwork, triple: Triple) -> AssocRow | None:
    rows = await network.store.assoc_scan((triple[0], triple[1], max(triple[2] - 1, FIRST)), 1)
    return rows[0] if rows and rows[0][:3] == triple else None


def _past(op: AssocOp, *stored: AssocRow | None) -> AssocOp:
    """Return `op` with a greater time than every stored row or, if its type has a fixed time, with greater data."""
    last = max(((row.time, row.data) for row in stored if row is not None), default=(-1, b""))
    if (op.time, op.data) > last:
        return op
    if op.atype in _KEEP_TIME:
        return op._replace(time=last[0], data=(int.from_bytes(last[1]) + 1).to_bytes(max(4, len(last[1]))))
    return op._replace(time=last[0] + 1)


async def _put_both(network: AnyNetwork, op: AssocOp) -> None:
    """Write an association and its inverse in two commits, because they may be in different stores."""
    inverse = ASSOC_TYPES[op.atype].inverse
    await _put(network, op)
    if inverse:
        await _put(network, op._replace(id1=op.id2, atype=inverse, id2=op.id1))


async def _put(network: AnyNetwork, op: AssocOp) -> None:
    batch = Batch(shard_of(op.id1))
    batch.put(op)
    await network.store.commit(batch)


async def _is_sum(network: AnyNetwork, id1: int, atype: int) -> bool:
    known = ASSOC_TYPES.get(atype)
    if known is None or not known.aggregated:
        return False
    return not isinstance((await network.store.obj_get((id1,))).get(id1), Post)


async def _recount(network: AnyNetwork, id1: int, atype: int, *, of_posts: bool) -> None:
    """Recount a list (or, with `of_posts`, the author's total) until it does not change during a recount.

    Raises `Conflict` after some attempts.
    """
    count = _sum if of_posts else _length
    counted = await count(network, id1, atype)
    for _ in range(_TRIES):
        await network.store.count_set(id1, atype, counted.n)
        now = await count(network, id1, atype)
        if now == counted:
            return
        counted = now
    raise Conflict("a count kept changing during the check; try again")


class _Counted(NamedTuple):
    n: int
    rows: int
    """Number of rows of the list including tombstones. A new association increases it even if another is deleted."""
    alive: int


async def _length(network: AnyNetwork, id1: int, atype: int) -> _Counted:
    rows = alive = 0
    after = (id1, atype, FIRST)
    while True:
        page = await network.store.assoc_scan(after, ROWS_AT_ONCE)
        mine = [row for row in page if (row.id1, row.atype) == (id1, atype)]
        rows += len(mine)
        alive += sum(row.alive for row in mine)
        if len(mine) < ROWS_AT_ONCE:
            return _Counted(alive, rows, alive)
        after = page[-1][:3]


async def _sum(network: AnyNetwork, author: int, atype: int) -> _Counted:
    """Return the sum of the stored counts, not the cached ones, of all items that the author posted.

    Deleted posts are included: their likes count for the post and for the author until the likes are removed.
    """
    n = rows = alive = 0
    after = (author, POSTED.number, FIRST)
    while True:
        page = await network.store.assoc_scan(after, ROWS_AT_ONCE)
        mine = [row for row in page if (row.id1, row.atype) == (author, POSTED.number)]
        rows += len(mine)
        alive += sum(row.alive for row in mine)
        for start in range(0, len(mine), _AT_ONCE):
            some = mine[start : start + _AT_ONCE]
            n += sum(await asyncio.gather(*(_stored_count(network, row.id2, atype) for row in some)))
        if len(mine) < ROWS_AT_ONCE:
            return _Counted(n, rows, alive)
        after = page[-1][:3]


async def _stored_count(network: AnyNetwork, id1: int, atype: int) -> int:
    rows = await network.store.count_scan((id1, atype - 1), 1)
    return rows[0][2] if rows and rows[0][:2] == (id1, atype) else 0
