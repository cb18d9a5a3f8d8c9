"""Exact maxima for what a member has, also when many things are added at the same moment.

To count and then to add lets two who count at once both find room. Here every addition moves the version of one object of the
member's, in the commit that adds: of two at once the second is refused, counts again, and sees what the first added. The
object is the member's login, which no page reads, so nothing that is remembered for pages is lost.

    two add to 99 of 100:   A reads version 7, counts 99      B reads version 7, counts 99
                            A adds, 7 -> 8                    B is refused: it reads version 8, counts 100, and says so
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec.structs import replace

from shoal.core.model import Member, Node
from shoal.graph.access import access_member
from shoal.graph.cache.coherence import another_request
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, Reader
from shoal.services.writes import Writes

T = TypeVar("T")

Claim = Callable[[Batch], None]
"""Marks a batch of the member's shard as an addition: its commit is refused when another addition was first."""

Access = Callable[[Reader, int], Awaitable[Member]]
"""Returns a member by id, or raises an error."""


async def in_turn(
    writes: Writes, member_id: int, attempt: Callable[[Claim], Awaitable[T]], *, access: Access = access_member
) -> T:
    """Run `attempt` until it is not overtaken, and return its answer. It counts, and commits a batch that it claimed.

    As with `retry_on_conflict`, it must read again each time. `access` returns the member; by default it raises `NotFound` for one
    who is not there.
    """

    async def once() -> T:
        member = await access(writes.graph, member_id)
        # The version is read before anything is counted, and both later than whatever this request has read so far: another
        # process may have added in between.
        with another_request():
            found = await writes.graph.obj_get((member.login_id,))
            turn: Node = found.get(member.login_id, member)

            def claim(batch: Batch) -> None:
                batch.obj_set(replace(turn, version=turn.version + 1))

            return await attempt(claim)

    # Those of one process wait for each other; who would collide is in another one.
    async with writes.turns.of((f"maxima of {member_id}",)):
        return await retry_on_conflict(once)
