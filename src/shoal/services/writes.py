"""What services may touch, and the one way in which they make an object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from shoal.core.errors import Conflict
from shoal.core.ids import IdMaker
from shoal.core.model import Node
from shoal.graph.contract import Batch, Graph, IdTaken
from shoal.graph.turns import Turns
from shoal.media.library import MediaLibrary
from shoal.services.pressure import Pressure

N = TypeVar("N", bound=Node)

_ID_TRIES = 16


class Limits(msgspec.Struct, frozen=True):
    """The maximum of every field."""

    text: int = 5_000
    """Characters of a post."""
    spoiler: int = 500
    note: int = 500
    private_note: int = 2_000
    """Characters that a member notes about another."""
    reason: int = 420
    """Characters that say why somebody wants to join."""
    list_title: int = 255
    lists: int = 100
    list_members: int = 500
    featured_tags: int = 10
    display_name: int = 100
    profile_fields: int = 4
    profile_field: int = 255
    description: int = 1_500
    """Characters that describe a picture."""
    media: int = 4
    """Pictures of a post."""
    member_bytes: int = 10_000_000_000
    """Bytes of the files of a member."""
    data: int = 64 * 1024
    """Bytes of an application's own JSON."""
    pins: int = 5
    """Posts that stand first on a profile."""
    follows: int = 7_500
    """Follows of a member; or a tenth more than the member has followers, where that is more."""
    scheduled: int = 300
    """Posts of a member that wait for their moment."""
    poll_options: int = 4
    poll_option: int = 50
    """Characters of what can be voted for."""
    poll_least_seconds: int = 300
    poll_most_seconds: int = 2_629_746
    password_least: int = 8
    password_most: int = 1_024
    idempotency_key: int = 256
    app_name: int = 200
    app_website: int = 2_000
    redirect_uris: int = 20
    redirect_uri: int = 2_000
    redirect_bytes: int = 4_096
    """Bytes of all redirect addresses of an app together."""


@dataclass(frozen=True, slots=True)
class Writes:
    """The graph, the makers of ids, and the media library."""

    graph: Graph
    new_id: IdMaker
    media: MediaLibrary
    limits: Limits = field(default_factory=Limits)
    domain: str = "localhost"
    """Our own name in `@user@domain`, without a port."""
    pressure: Pressure = field(default_factory=Pressure)
    """Refuses new posts and shares while too much follows from earlier ones."""
    turns: Turns = field(default_factory=Turns)
    """For changes of one object that would only overtake each other."""


async def add_node(writes: Writes, shard: int, build: Callable[[int], tuple[N, Batch]]) -> N:
    """Commit a new object: `build` makes it and its batch from an id; when the id is taken, from the next."""
    for _ in range(_ID_TRIES):
        node, batch = build(writes.new_id(shard))
        try:
            await writes.graph.commit(batch)
        except IdTaken:
            continue
        return node
    raise Conflict("no free id was found; repeat")
