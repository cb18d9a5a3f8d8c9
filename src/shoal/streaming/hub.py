"""Live updates of one process: it follows the channel once, and hands what it hears to those viewers whom it concerns.

What a viewer hears of is held in memory: loaded from the graph once they are connected, and read again when an update says
that it changed. What was heard in between is gone through once more, so nothing is missed.

For example, member 5 follows author 8, and connects when the hub has heard the updates 0 to 19, so `since` is 20:

1. While the follows are read, post 300 by 8 is heard as update 20. The connection has no sources yet: nobody is told.
2. The follows arrive: {8}. The hub goes through its updates from 20 on, and offers post 300.
3. At 310, member 5 follows author 9, who had posted 305 (update 21) and posts 320 (update 22). Neither concerns 5 yet.
4. Update 23 says that 5's follow of 9 changed. The follow is read, with its time, 310, and the updates from 20 on are
   gone through for 9: post 320 is offered, as it is later than the follow; 305 is not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import aclosing, asynccontextmanager

from shoal.core.errors import Unavailable
from shoal.graph.contract import Reader
from shoal.streaming.connection import Connection
from shoal.streaming.contract import Channel, Gap, Position
from shoal.streaming.interests import HOME, Interest
from shoal.streaming.matching import Matching
from shoal.streaming.replay import PlacedUpdate, UpdateHistory
from shoal.streaming.updates import (
    AnyUpdate,
    FollowChanged,
    ListChanged,
    MemberSuspended,
    OfEntry,
    OfListening,
    SessionsEnded,
    decode,
)
from shoal.throttled_log import ThrottledLog

_log = logging.getLogger(__name__)

_REST_SECONDS = 0.5
_AT_ONCE = 16
"""How many connections are brought up to date side by side."""


class Hub:
    """Begins to follow when the first viewer connects, and goes on from then.

    It remembers `remembered` updates for those who come back; `room` of them may wait for one viewer.
    """

    def __init__(self, channel: Channel, graph: Reader, *, room: int = 200, remembered: int = 5_000) -> None:
        self._channel = channel
        self._graph = graph
        self._room = room
        self._remembered = remembered
        self._matching = Matching()
        # None before the beginning, and from a gap until what is told has been caught up with.
        self._replay: UpdateHistory | None = None
        self._at = Position("")
        self._moved = asyncio.Event()
        # Whose sources are to be read again: these, or all (None).
        self._outdated: dict[Connection, set[int] | None] = {}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False
        self._outage = ThrottledLog(_log)

    @property
    def connected(self) -> int:
        """How many connections there are that are told everything from now on."""
        return sum(1 for connection in self._matching.everybody() if connection.loaded)

    @asynccontextmanager
    async def connect(
        self, viewer: int, after: Position | None = None, *, to: Interest = HOME, session: int = 0
    ) -> AsyncIterator[Connection]:
        """A viewer is told what concerns them from now on, or since a position that came with an earlier update.

        Where that is too long ago, they are told first that they may have missed something. The connection ends when the
        token ends that is its `session`. Raises `Unavailable`.
        """
        replay = await self._reached()
        since = replay.next if after is None else replay.after(after)
        connection = Connection(viewer, to, self._room, replay.next if since is None else since, session)
        if since is None:
            connection.miss(self._at)
        self._matching.join(connection)
        try:
            await self._load(connection, None)
            yield connection
        finally:
            connection.end()
            self._matching.leave(connection)
            self._outdated.pop(connection, None)

    async def _reached(self) -> UpdateHistory:
        """Return the replay once it has all that was published before this call. Raises `Unavailable` on closing."""
        while not self._closed:
            replay, end = self._replay, await self._channel.end()
            self._start()
            while self._replay is replay and not self._closed:
                if replay is not None and self._channel.reached(end, self._at):
                    return replay
                self._moved.clear()
                await self._moved.wait()
        raise Unavailable("live updates are closing")

    def _start(self) -> None:
        if not self._tasks and not self._closed:
            self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._keep_right())]

    async def _follow(self) -> None:
        """Listen for as long as there are viewers, whatever happens to the channel."""
        away = False
        while True:
            try:
                await self._listen()
            except Gap:
                self._replay, away = None, False
            except Unavailable as error:
                if not away:
                    _log.warning("live updates wait: %s", error)
                away = True
                await asyncio.sleep(_REST_SECONDS)
            except Exception:  # noqa: BLE001  # viewers wait for what comes after it
                _log.exception("the channel could not be followed")
                await asyncio.sleep(_REST_SECONDS)

    async def _listen(self) -> None:
        """Go on from where we were; or begin a little before the end, for those who come back, and tell nobody of that."""
        replay, at, until = self._replay, self._at, self._at
        if replay is None:
            at, until = await self._channel.end(self._remembered), await self._channel.end()
            replay = UpdateHistory(at, self._remembered)
            if at == until:
                self._arrive(replay, at)
        async with aclosing(self._channel.follow(at)) as messages:
            async for position, message in messages:
                update = decode(message)
                replay.add(position, update)
                if self._replay is not None:
                    self._tell(position, update)
                elif self._channel.reached(until, position):
                    self._arrive(replay, position)

    def _arrive(self, replay: UpdateHistory, position: Position) -> None:
        """From here on viewers are told. Those who are connected already may have missed something."""
        self._replay, self._at = replay, position
        for connection in self._matching.everybody():
            connection.since = replay.next
            connection.miss(position)
            self._outdate(connection, None)
        self._moved.set()

    def _tell(self, position: Position, update: AnyUpdate | None) -> None:
        self._at = position
        if isinstance(update, OfListening):
            self._listen_otherwise(update)
        elif update is not None:
            heard = PlacedUpdate(position, update)
            for connection in self._matching.concerned(update):
                connection.offer(heard)
        self._moved.set()

    def _listen_otherwise(self, update: OfListening) -> None:
        for connection in list(self._matching.of(_who(update))):
            if isinstance(update, MemberSuspended) or (
                isinstance(update, SessionsEnded) and connection.session in update.token_ids
            ):
                connection.dismiss()
            elif (sources := connection.interest.outdated_by(update)) is not None:
                self._outdate(connection, set(sources) or None)

    def _outdate(self, connection: Connection, sources: set[int] | None) -> None:
        waiting = self._outdated.get(connection, set())
        self._outdated[connection] = None if sources is None or waiting is None else waiting | sources
        self._changed.set()

    async def _keep_right(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._outdated:
                some = [self._outdated.popitem() for _ in range(min(_AT_ONCE, len(self._outdated)))]
                await asyncio.gather(*(self._refresh(*one) for one in some))

    async def _refresh(self, connection: Connection, sources: set[int] | None) -> None:
        try:
            await self._load(connection, sources)
        except Exception:  # noqa: BLE001  # the graph may be away: they are read when it is back
            self._outage.warning("what a viewer follows cannot be read now", exc_info=True)
            await asyncio.sleep(_REST_SECONDS)
            if not connection.ended:
                self._outdate(connection, sources)

    async def _load(self, connection: Connection, sources: set[int] | None) -> None:
        """Read what the viewer hears of, of these sources or of all. What was read last counts: one at a time."""
        interest, viewer = connection.interest, connection.viewer
        async with connection.loading:
            if sources is None:
                followed = await interest.sources(self._graph, viewer)
            else:
                followed = await interest.which_of(self._graph, viewer, sources)
            if not connection.ended:
                self._install(connection, followed, connection.sources if sources is None else sources)

    def _install(self, connection: Connection, followed: Mapping[int, int], asked: Collection[int]) -> None:
        first, connection.loaded = not connection.loaded, True
        new = {source: time for source, time in followed.items() if source not in connection.sources}
        self._matching.unfollow(connection, connection.sources.intersection(asked) - followed.keys())
        self._matching.follow(connection, new)
        if self._replay is None:
            # After a gap they are told so, and all is read again.
            return
        if first:
            self._catch_up(connection, self._replay)
            return
        for _, update in self._replay.of(new, connection.since):
            # It was told before the follow was, though it was posted after it.
            if isinstance(update, OfEntry) and any(
                update.entry_id > new[source] for source in update.sources() if source in new
            ):
                connection.offer(PlacedUpdate(self._at, update))

    def _catch_up(self, connection: Connection, replay: UpdateHistory) -> None:
        """Offer the updates that were heard while the viewer was away, or while their sources were loaded."""
        if connection.since < replay.first:
            connection.miss(self._at)
            return
        for heard in replay.of(connection.sources, connection.since, connection.viewer, connection.interest):
            connection.offer(heard)

    async def close(self) -> None:
        """Every viewer has heard the last."""
        self._closed = True
        self._moved.set()
        for connection in self._matching.everybody():
            connection.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _who(update: OfListening) -> int:
    """The member whose listening it changes."""
    if isinstance(update, FollowChanged):
        return update.follower_id
    return update.owner_id if isinstance(update, ListChanged) else update.member_id
