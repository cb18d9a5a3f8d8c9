"""The context that every command receives, and what all commands share: limits, new objects, background tasks, load shedding.

`Writes` bundles the graph, the id generator, the media library, the limits and the acting member.

Load shedding (`Pressure`): new posts and shares are refused at random while fan-out is late. The refused fraction grows with
the delay, so the queue stays bounded. Reads and all other commands continue.

Background tasks: a bounded number of tasks that no response waits for, so that response times reveal nothing. The server
waits for them when it stops.

Exact limits under concurrency: counting and then adding would let two concurrent requests both take the last slot. Every
addition therefore also increments the version of the member's login object in its commit. The request that loses the race is
refused, counts again, and sees the addition of the winner. No page reads the login object, so no cached page is invalidated.

    Two requests add to a list with 99 of 100 entries:
      A reads version 7, counts 99      B reads version 7, counts 99
      A adds, version 7 -> 8            B conflicts, reads version 8, counts 100, and is refused
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec
from msgspec.structs import replace as _replace_struct

from shoal.core.audit import SYSTEM_ACTOR, Actor, RepeatCounter
from shoal.core.errors import Conflict, NotFound, Unavailable
from shoal.core.events import Event
from shoal.core.ids import IdMaker, shard_of
from shoal.core.model import Member, Node
from shoal.core.publishing import NO_CHECKS, Checks
from shoal.core.signup import Inviters
from shoal.core.tokens import FOR_EVER, TokenLifetime
from shoal.graph.access import Owned, access_member, get_object, own_object
from shoal.graph.cache.coherence import another_request
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, Graph, IdTaken, Missing, find_object
from shoal.graph.schema import EVERYBODY, AssocType, Key
from shoal.locks import KeyedLocks
from shoal.media.library import MediaLibrary

_log = logging.getLogger("shoal.background")

MAX_BACKGROUND_TASKS = 64
"""Maximum number of concurrent tasks; beyond it, a caller runs its task itself."""
_CLOSING_SECONDS = 5.0


class Background:
    """A runner of tasks that may continue after the response is sent. No startup call is needed."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, work: Coroutine[None, None, None]) -> None:
        """Start a task and return immediately, or run it to its end if too many are running. Exceptions are logged."""
        if len(self._tasks) >= MAX_BACKGROUND_TASKS:
            await _quietly(work)
            return
        task = asyncio.create_task(_quietly(work), name="shoal-background")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait for the running tasks, and cancel any that take too long."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(set(self._tasks), timeout=_CLOSING_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


async def _quietly(work: Coroutine[None, None, None]) -> None:
    try:
        await work
    except Exception:  # noqa: BLE001  # no response waits for the result
        _log.exception("background task failed")


_RETRY_SECONDS = 1.0
_FIRST = 1 / 3
"""Delay at which refusing begins, as a fraction of the delay at which everything is refused."""


def refused_part(wait: float, first: float, most: float) -> float:
    """Return the fraction of requests to refuse at a delay of `wait` seconds: 0 up to `first`, 1 from `most` on, linear between.

    Example: if twice as many requests arrive as can be processed, the delay settles where half of them are refused: at 2 seconds
    with `first` = 1 and `most` = 3.
    """
    return min(1.0, max(0.0, (wait - first) / (most - first)))


@dataclass(slots=True)
class Pressure:
    """Load shedding by fan-out delay. `behind` returns the delay in seconds, and `most` is the highest allowed (0: no limit).

    Entry points that accept posts and shares (the API, the library) call `check` once per post, before any other work. Imports
    and scheduled posts are exempt, because they were accepted earlier.
    """

    behind: Callable[[], float] = lambda: 0.0
    most: float = 0.0
    draw: Callable[[], float] = random.random
    """Returns a random number from 0 (inclusive) to 1 (exclusive)."""
    refused: int = 0
    """Posts and shares refused so far."""

    def check(self) -> None:
        """Raise `Unavailable` at random: the longer the current delay, the more often."""
        if (refusal := self.refusal()) is not None:
            raise refusal

    def refusal(self) -> Unavailable | None:
        """Return the error that `check` would raise for one post; None to accept the post.

        Posts to refuse are selected at random.
        """
        seconds = self.behind() if self.most else 0.0
        part = refused_part(seconds, self.most * _FIRST, self.most) if seconds else 0.0
        if self.draw() >= part:
            return None
        self.refused += 1
        return Unavailable(
            f"deliveries are {seconds:.0f} seconds behind; try again in a moment",
            retry_after=_RETRY_SECONDS,
        )


N = TypeVar("N", bound=Node)

ID_TRIES = 16


class Limits(msgspec.Struct, frozen=True):
    text: int = 5_000
    """Characters of a post."""
    spoiler: int = 500
    note: int = 500
    private_note: int = 2_000
    reason: int = 420
    """Characters of a sign-up reason."""
    list_title: int = 255
    lists: int = 100
    list_members: int = 500
    albums: int = 100
    album_photos: int = 200
    album_title: int = 100
    album_description: int = 1_000
    invitations: int = 50
    """Open invitations per member."""
    featured_tags: int = 10
    display_name: int = 100
    profile_fields: int = 4
    profile_field: int = 255
    description: int = 1_500
    """Characters of a media description."""
    media: int = 10
    """Media per post."""
    member_bytes: int = 10_000_000_000
    data: int = 64 * 1024
    """Bytes of an application's own JSON."""
    emoji_of_post: int = 20
    """Distinct emoji on a post."""
    emoji_of_member: int = 8
    """Emoji that one member puts on one post."""
    pins: int = 5
    follows: int = 7_500
    """Followed accounts per member, or 110% of the member's follower count if that is more."""
    scheduled: int = 300
    held: int = 100
    """Posts, edits and profile changes of a member that wait for approval, or were rejected."""
    poll_options: int = 4
    poll_option: int = 50
    """Characters of a poll option."""
    poll_least_seconds: int = 300
    poll_most_seconds: int = 2_629_746
    leaving_days: int = 30
    """Days in which an account deletion can be canceled."""
    passwords: bool = True
    """Whether members log in with passwords."""
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
    """The dependencies that every command receives, bound to the acting member."""

    graph: Graph
    new_id: IdMaker
    media: MediaLibrary
    limits: Limits = field(default_factory=Limits)
    domain: str = "localhost"
    """The server's own name in `@user@domain`, without a port."""
    pressure: Pressure = field(default_factory=Pressure)
    """Refuses new posts and shares while fan-out is late."""
    locks: KeyedLocks = field(default_factory=KeyedLocks)
    """Serializes changes of an object within the process, so that they do not conflict."""
    inviters: Inviters = "off"
    lifetime: TokenLifetime = FOR_EVER
    """How long an unused token stays valid."""
    actor: Actor = SYSTEM_ACTOR
    """The acting member, with address and reason, for the audit log."""
    failures: RepeatCounter = field(default_factory=RepeatCounter)
    """Aggregates failed logins, so that a flood leaves few audit entries."""
    checks: Checks = NO_CHECKS
    """Checks of content before it is public."""
    background: Background | None = None
    """Runs tasks that no response waits for; None for callers inside the process, which wait for the tasks themselves."""

    def by(self, actor: Actor) -> Writes:
        return replace(self, actor=actor)

    def trusted(self) -> Writes:
        """Return a copy of this object whose changes are not checked before they are public: those of operators."""
        return replace(self, checks=NO_CHECKS)

    def because(self, reason: str) -> Writes:
        """Return a copy of this object with a reason for the audit log. Raises `InvalidInput` if the reason is too long."""
        return replace(self, actor=self.actor.because(reason)) if reason else self

    async def commit(self, batch: Batch) -> None:
        """Commit a batch. Raises `NotFound` if an object that it expects was deleted, and `Conflict` for concurrent changes."""
        try:
            await self.graph.commit(batch)
        except Missing as error:
            raise NotFound("Record not found") from error


async def add_node(writes: Writes, shard: int, build: Callable[[int], tuple[N, Batch]]) -> N:
    """Commit a new object and return it.

    `build` returns the object and its batch for a generated id. If that id or another id generated for the batch (`batch.fresh`)
    is taken, `build` is called again with another id. Raises `IdTaken` if an id that was not generated is taken, as in an import.
    """
    for _ in range(ID_TRIES):
        new_id = writes.new_id(shard)
        node, batch = build(new_id)
        batch.presumed_new, batch.new_id = True, new_id
        batch.fresh.add(new_id)
        try:
            await writes.commit(batch)
        except IdTaken as error:
            if error.id not in batch.fresh:
                raise
            continue
        return node
    raise Conflict("no free id found; try again")


async def delete_owned(
    writes: Writes, kind: type[Owned], atype: AssocType, owner_id: int, id_: int, event: Event
) -> None:
    """Delete an object that the member owns, and emit an event. Raises `NotFound` for another member's object."""
    await own_object(writes.graph, kind, owner_id, id_)
    batch = Batch(shard_of(owner_id))
    batch.obj_del(id_)
    batch.assoc_del(owner_id, atype, id_, writes.new_id(batch.shard))
    batch.emit(event)
    await writes.graph.commit(batch)


async def made_once(
    writes: Writes, key: Key, kind: type[N], make: Callable[[int], N], list_: AssocType | None = None
) -> N:
    """Return the object that exists once per network under this key. The first caller creates it.

    With `list_`, the object is also the entry of a list of the network, which is cached, unlike keys.
    """

    def build(id_: int) -> tuple[N, Batch]:
        node, batch = make(id_), Batch(key.shard)
        batch.obj_add(node)
        batch.key_add(key, id_)
        if list_ is not None:
            batch.assoc_add(EVERYBODY, list_, id_, id_)
        return node, batch

    async def attempt() -> N:
        id_ = (await writes.graph.key_get((key,))).get(key, 0)
        return await find_object(writes.graph, kind, id_) or await add_node(writes, key.shard, build)

    return await retry_on_conflict(attempt)


T = TypeVar("T")

Claim = Callable[[Batch], None]
"""Marks a batch on the member's shard as an addition: its commit is refused if another addition was first."""


async def serialized(
    writes: Writes, member_id: int, attempt: Callable[[Claim], Awaitable[T]], *, active: bool = True
) -> T:
    """Call `attempt`, which counts objects and commits a batch that relies on the count, until there is no conflict.

    Returns its result. `attempt` must read all data again each time, and call its argument with the batch (see `Claim`). Raises
    `NotFound` for an unknown member. If `active` is true, also raises `NotFound` for a pending member and `Gone` for a suspended
    member.
    """
    graph = writes.graph

    async def once() -> T:
        member = await (access_member(graph, member_id) if active else get_object(graph, Member, member_id))
        # Read the version of `holder` before `attempt` counts the objects. Neither may come from an earlier read of this request,
        # because another process may have added objects since.
        with another_request():
            found = await graph.obj_get((member.login_id,))
            holder: Node = found.get(member.login_id, member)

            def claim(batch: Batch) -> None:
                batch.obj_set(_replace_struct(holder, version=holder.version + 1))

            return await attempt(claim)

    # Requests of this process wait here; only requests of other processes can conflict.
    async with writes.locks.of((f"maxima of {member_id}",)):
        return await retry_on_conflict(once)
