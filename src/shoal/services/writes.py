"""Everything that services may read and write, and how they make an object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from shoal.core.audit import NOBODY, Actor, RepeatCounter
from shoal.core.errors import Conflict
from shoal.core.ids import IdMaker
from shoal.core.model import Node
from shoal.core.signup import Inviters
from shoal.core.tokens import FOR_EVER, TokenLifetime
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, Graph, IdTaken
from shoal.graph.schema import Key
from shoal.locks import NamedTurns
from shoal.media.library import MediaLibrary
from shoal.services.login.background import Background
from shoal.services.pressure import Pressure

N = TypeVar("N", bound=Node)

ID_TRIES = 16


class Limits(msgspec.Struct, frozen=True):
    """The maximum of every field."""

    text: int = 5_000
    """Characters of a post."""
    spoiler: int = 500
    note: int = 500
    private_note: int = 2_000
    """Characters of a private note about another member."""
    reason: int = 420
    """Characters of a reason for wanting to join."""
    list_title: int = 255
    lists: int = 100
    list_members: int = 500
    albums: int = 100
    album_photos: int = 200
    album_title: int = 100
    album_description: int = 1_000
    invitations: int = 50
    """Open invitations of a member."""
    featured_tags: int = 10
    display_name: int = 100
    profile_fields: int = 4
    profile_field: int = 255
    description: int = 1_500
    """Characters of the description of media."""
    media: int = 4
    """Media in a post."""
    member_bytes: int = 10_000_000_000
    """Bytes of all media files of a member."""
    data: int = 64 * 1024
    """Bytes of an application's own JSON."""
    emoji_of_post: int = 20
    """Different emoji on a post."""
    emoji_of_member: int = 8
    """Emoji that a member has on one post."""
    pins: int = 5
    """Pinned posts on a profile."""
    follows: int = 7_500
    """Follows of a member; or a tenth more than the member has followers, where that is more."""
    scheduled: int = 300
    """Scheduled posts of a member."""
    poll_options: int = 4
    poll_option: int = 50
    """Characters of a poll option."""
    poll_least_seconds: int = 300
    poll_most_seconds: int = 2_629_746
    leaving_days: int = 30
    """Days in which a member who deletes their account may come back."""
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
    """Refuses new posts and shares while the consequences of earlier ones are late."""
    turns: NamedTurns = field(default_factory=NamedTurns)
    """Makes changes of one object wait for each other instead of colliding."""
    inviters: Inviters = "off"
    """Members who may invite others."""
    lifetime: TokenLifetime = FOR_EVER
    """How long tokens last that nobody uses."""
    actor: Actor = NOBODY
    """The member who acts, from where and why: for the audit log."""
    failures: RepeatCounter = field(default_factory=RepeatCounter)
    """Counts failed log-ins, so that a flood of them leaves few entries in the audit log."""
    background: Background | None = None
    """Runs what no answer waits for; None inside the process, where whoever acts waits."""

    def by(self, actor: Actor) -> Writes:
        """Return the bundle for somebody who acts."""
        return replace(self, actor=actor)

    def because(self, reason: str) -> Writes:
        """Return the bundle for an act with a reason. Raises `InvalidInput` for one that is too long."""
        return replace(self, actor=self.actor.because(reason)) if reason else self


async def add_node(writes: Writes, shard: int, build: Callable[[int], tuple[N, Batch]]) -> N:
    """Commit a new object. `build` makes it and its batch from an id, and again from the next one while a fresh id is taken.

    Raises `IdTaken` for an id that `build` did not make, as of an import.
    """
    for _ in range(ID_TRIES):
        new_id = writes.new_id(shard)
        node, batch = build(new_id)
        batch.presumed_new, batch.new_id = True, new_id
        batch.fresh.add(new_id)
        try:
            await writes.graph.commit(batch)
        except IdTaken as error:
            if error.id not in batch.fresh:
                raise
            continue
        return node
    raise Conflict("no free id was found; repeat")


async def made_once(writes: Writes, key: Key, kind: type[N], make: Callable[[int], N]) -> N:
    """Return the one object of a kind that the network has under a key. Whoever asks first makes it, from an id."""

    def build(id_: int) -> tuple[N, Batch]:
        node, batch = make(id_), Batch(key.shard)
        batch.obj_add(node)
        batch.key_add(key, id_)
        return node, batch

    async def attempt() -> N:
        id_ = (await writes.graph.key_get((key,))).get(key, 0)
        node = (await writes.graph.obj_get((id_,))).get(id_) if id_ else None
        return node if isinstance(node, kind) else await add_node(writes, key.shard, build)

    return await retry_on_conflict(attempt)
