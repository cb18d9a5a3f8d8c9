"""A check that a page read during concurrent changes lacks no post whose consequences are done."""

from __future__ import annotations

from typing import NamedTuple, cast

from shoal.core.events import (
    Blocked,
    Event,
    FollowChanged,
    FollowersLost,
    LikeChanged,
    PostCreated,
    PostDeleted,
    PostUpdated,
    ShareCreated,
    SuspensionChanged,
    TagsUsed,
)
from shoal.core.model import Post
from shoal.graph.contract import Cursor, Graph, Store
from shoal.queries import home
from shoal.queries.context import Reads
from tests.flows.simulation.faults import Haltable, Unruly
from tests.flows.simulation.invariants import GraphSnapshot

_HARMLESS = (PostCreated, ShareCreated, LikeChanged, TagsUsed, FollowersLost)
"""Events whose commits remove nothing from a home timeline."""


class _Moment(NamedTuple):
    posts: set[int]
    """Ids of posts in the home timeline with no pending consequences."""
    said: int
    """Number of events so far."""


async def watch(graph: Graph, reads: Reads, outbox: Unruly, halting: Haltable, viewer: int) -> None:
    """Read a whole home timeline during concurrent changes, and check that it shows every post that was there before and after."""

    async def moment() -> _Moment | None:
        async with halting.halted():
            undone = await outbox.undone()
            snapshot = await GraphSnapshot.of(cast("Store", graph))
            return (
                None if _unsettled(viewer, undone) else _Moment(_done_with(snapshot, viewer, undone), len(halting.said))
            )

    before = await moment()
    page = await home.page(reads, viewer, Cursor(limit=1_000))
    after = await moment()
    shown = [entry.id for entry in page.entries]
    assert len(shown) == len(set(shown)), "an entry is duplicated"
    if before and after and all(_harmless(viewer, event) for event in halting.said[before.said : after.said]):
        missing = before.posts & after.posts - set(shown)
        assert not missing, f"the page lacks {missing}, which were in the home timeline before and after the read"


def _unsettled(viewer: int, undone: list[Event]) -> bool:
    """Return whether pending events may still change the viewer's follows or visible members."""
    return any(
        isinstance(event, Blocked | SuspensionChanged)
        or (isinstance(event, FollowChanged) and event.follower_id == viewer)
        for event in undone
    )


def _done_with(snapshot: GraphSnapshot, viewer: int, undone: list[Event]) -> set[int]:
    posts = {
        id_ for id_ in snapshot.home(viewer, 0) if isinstance(post := snapshot.objects[id_], Post) and not post.hidden
    }
    return posts - {event.post_id for event in undone if isinstance(event, PostCreated | PostUpdated | PostDeleted)}


def _harmless(viewer: int, event: Event) -> bool:
    if isinstance(event, FollowChanged):
        return event.follower_id != viewer
    return isinstance(event, _HARMLESS)
