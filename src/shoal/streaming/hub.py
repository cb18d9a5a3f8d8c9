"""The hub of a process: follow the channel once, match updates to connected viewers, and replay recent updates.

A viewer's sources are held in memory. They are loaded from the graph after the viewer connects, and read again when an update
reports that they changed. Updates that arrived in between are checked again, so none is missed. A viewer who reconnects after a
short interruption gets the recent updates from the hub. The cost of matching grows with the number of viewers an update concerns,
and does not depend on the number of connected viewers.

For example, member 5 follows author 8, and connects when the hub has received updates 0 to 19, so `since` is 20:

1. While the follows are read, post 300 by 8 arrives as update 20. The connection has no sources yet, so it is not offered.
2. The follows arrive: {8}. The hub checks its updates from 20 on, and offers post 300.
3. At 310, member 5 follows author 9, who had posted 305 (update 21) and posts 320 (update 22). Neither concerns 5 yet.
4. Update 23 says that 5's follow of 9 changed. The follow is read, with its time, 310, and the updates from 20 on are checked for
   9: post 320 is offered, because it is later than the follow; 305 is not.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from shoal.core.errors import Unavailable
from shoal.graph.contract import Reader
from shoal.streaming.contract import Channel, Gap, Position
from shoal.streaming.subscriptions import HOME, PRESENCE, Interest
from shoal.streaming.updates import (
    AnyUpdate,
    FollowChanged,
    ListChanged,
    MemberSuspended,
    OfEntry,
    SessionsEnded,
    SubscriptionChange,
    TagCloudMerged,
    ViewerUpdate,
    decode,
)
from shoal.tasks import cancel
from shoal.throttled_log import ThrottledLog


class PlacedUpdate(NamedTuple):
    position: Position
    update: ViewerUpdate


class UpdateHistory:
    """The newest `length` updates since the position `start`, numbered consecutively."""

    def __init__(self, start: Position, length: int) -> None:
        self._length = length
        self._updates: deque[tuple[Position, AnyUpdate | None]] = deque()
        self._after: OrderedDict[Position, int] = OrderedDict({start: 0})
        # Lists of update numbers. The list under the id of a source has the updates for its followers; the list under a 1-tuple
        # of a member's id has the updates that name this member.
        self._numbers: dict[int | tuple[int], list[int]] = {}
        self.next = 0

    @property
    def first(self) -> int:
        return self.next - len(self._updates)

    def add(self, position: Position, update: AnyUpdate | None) -> None:
        """Append an update. `update` is None if it could not be decoded."""
        for name in _names(update):
            self._numbers.setdefault(name, []).append(self.next)
        self._updates.append((position, update))
        self.next += 1
        self._after[position] = self.next
        if len(self._updates) > self._length:
            self._forget()

    def _forget(self) -> None:
        self._after.popitem(last=False)
        _, update = self._updates.popleft()
        for name in _names(update):
            numbers = self._numbers[name]
            # Most lists have one or two numbers: a deque would take seven times as much memory.
            del numbers[0]
            if not numbers:
                del self._numbers[name]

    def after(self, position: Position) -> int | None:
        """Return the number of the first update after a position; None if some updates since then are no longer stored."""
        return self._after.get(position)

    def of(
        self, sources: Iterable[int], since: int, viewer: int = 0, interest: Interest = PRESENCE
    ) -> Iterator[PlacedUpdate]:
        """Yield the updates from number `since` on, each once, that concern followers of these sources or the viewer.

        An update concerns the viewer if it names the viewer and matches `interest`.
        """
        named = self._updates_at(self._numbers_of([(viewer,)], since))
        found = self._numbers_of(sources, since)
        found |= {number for number, placed in named if interest.matches(placed.update)}
        for _, placed in self._updates_at(found):
            yield placed

    def _numbers_of(self, names: Iterable[int | tuple[int]], since: int) -> set[int]:
        return {number for name in names for number in self._numbers.get(name, ()) if number >= since}

    def _updates_at(self, numbers: Iterable[int]) -> Iterator[tuple[int, PlacedUpdate]]:
        for number in sorted(numbers):
            position, update = self._updates[number - self.first]
            if update is not None and not isinstance(update, SubscriptionChange | TagCloudMerged):
                yield number, PlacedUpdate(position, update)


def _names(update: AnyUpdate | None) -> list[int | tuple[int]]:
    return [] if update is None else [*update.sources(), *((member,) for member in update.named())]


class Missed(NamedTuple):
    """Updates may have been missed up to this position."""

    position: Position


@dataclass(eq=False)
class Connection:
    """A connected viewer.

    At most `capacity` updates wait for the viewer; if there are more, one `Missed` replaces them.
    """

    viewer: int
    interest: Interest
    capacity: int
    since: int
    """The number of the first update to offer."""
    start: Position = Position("")  # noqa: RUF009  # an immutable string
    """The position before this update, from which a client can resume that has received no update."""
    session: int = 0
    """The id of the token of the connection; 0 for none."""
    sources: set[int] = field(default_factory=set)
    loaded: bool = False
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)
    ended: bool = False
    dismissed: bool = False
    """Whether it ended because the viewer lost access."""
    _waiting: deque[PlacedUpdate] = field(default_factory=deque)
    _missed: Missed | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, placed: PlacedUpdate) -> None:
        if len(self._waiting) >= self.capacity:
            self.miss(placed.position)
        elif not self.dismissed:
            self._waiting.append(placed)
            self._wake.set()

    def miss(self, position: Position) -> None:
        """Replace the waiting updates by `Missed`, so that the viewer reloads the timeline. Later updates are delivered."""
        self._waiting.clear()
        self._missed = Missed(position)
        self._wake.set()

    async def take(self) -> list[PlacedUpdate | Missed]:
        """Wait for and return the waiting updates; empty when the connection has ended."""
        await self._wake.wait()
        if not self.ended:
            self._wake.clear()
        found: list[PlacedUpdate | Missed] = (
            [*self._waiting] if self._missed is None else [self._missed, *self._waiting]
        )
        self._waiting.clear()
        self._missed = None
        return found

    async def lasts(self, seconds: float) -> bool:
        """Wait for up to `seconds`, and return whether the connection has not ended. Discards updates."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.take()
        return not self.ended

    def end(self) -> None:
        self.ended = True
        self._wake.set()

    def dismiss(self) -> None:
        """End the connection at once, without the waiting updates, because the viewer lost access."""
        self.dismissed = True
        self._waiting.clear()
        self._missed = None
        self.end()


_NONE: frozenset[Connection] = frozenset()


class Matching:
    def __init__(self) -> None:
        self._by_viewer: dict[int, set[Connection]] = {}
        self._by_source: dict[int, set[Connection]] = {}

    def all_connections(self) -> list[Connection]:
        return [connection for found in self._by_viewer.values() for connection in found]

    def of(self, viewer: int) -> Collection[Connection]:
        return self._by_viewer.get(viewer, _NONE)

    def concerned(self, update: ViewerUpdate) -> Collection[Connection]:
        """Return the connections that follow a source of the update, or whose viewer the update names and concerns, each once."""
        found = [self._by_source.get(source, _NONE) for source in update.sources()]
        # Connections that are still loading their sources are left out: they receive these updates in order afterwards.
        found += [
            {
                subscription
                for subscription in self.of(member)
                if subscription.loaded and subscription.interest.matches(update)
            }
            for member in update.named()
        ]
        every = [connections for connections in found if connections]
        return every[0] if len(every) == 1 else _NONE.union(*every)

    def join(self, connection: Connection) -> None:
        self._by_viewer.setdefault(connection.viewer, set()).add(connection)

    def leave(self, connection: Connection) -> None:
        self.unfollow(connection, list(connection.sources))
        _discard(self._by_viewer, connection.viewer, connection)

    def follow(self, connection: Connection, sources: Iterable[int]) -> None:
        for source in sources:
            connection.sources.add(source)
            self._by_source.setdefault(source, set()).add(connection)

    def unfollow(self, connection: Connection, sources: Iterable[int]) -> None:
        for source in sources:
            connection.sources.discard(source)
            _discard(self._by_source, source, connection)


def _discard(among: dict[int, set[Connection]], key: int, connection: Connection) -> None:
    found = among.get(key)
    if found is not None:
        found.discard(connection)
        if not found:
            del among[key]


_log = logging.getLogger(__name__)

_BACKOFF_SECONDS = 0.5
_AT_ONCE = 16


class Hub:
    """Distributes the updates of the log to the viewers connected to this process.

    The hub follows the log from the first connection or call of `follow` on. It keeps `retained` updates for viewers who
    reconnect; at most `capacity` updates wait for one viewer. `on_merge` is called with each new version of the tag cloud, and
    with 0 when some may have been missed.
    """

    def __init__(
        self,
        channel: Channel,
        graph: Reader,
        *,
        capacity: int = 200,
        retained: int = 5_000,
        on_merge: Callable[[int], None] = lambda _version: None,
    ) -> None:
        self._channel = channel
        self._graph = graph
        self._capacity = capacity
        self._retained = retained
        self._on_merge = on_merge
        self._matching = Matching()
        # None before the start, and after a gap until the hub has caught up.
        self._replay: UpdateHistory | None = None
        self._at = Position("")
        self._moved = asyncio.Event()
        # Connections whose sources must be read again: the ids of these sources, or None for all sources.
        self._outdated: dict[Connection, set[int] | None] = {}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False
        self._away = False
        self._outage = ThrottledLog(_log)

    @property
    def connected(self) -> int:
        return sum(1 for connection in self._matching.all_connections() if connection.loaded)

    @asynccontextmanager
    async def connect(
        self, viewer: int, after: Position | None = None, *, to: Interest = HOME, session: int = 0
    ) -> AsyncIterator[Connection]:
        """Connect a viewer who gets updates of the kind `to`, from now on or after the position of an earlier update.

        If updates since that position are no longer stored, the viewer first gets `Missed`. The connection ends when the token
        `session` is revoked. Raises `Unavailable` if the channel cannot be reached, or the hub is closing.
        """
        replay = await self._caught_up()
        since = replay.next if after is None else replay.after(after)
        start = self._at if after is None or since is None else after
        number = replay.next if since is None else since
        connection = Connection(viewer, to, self._capacity, number, start, session)
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

    def follow(self) -> bool:
        """Follow the log from now on, unless the hub follows it already. Return whether the hub receives every new update."""
        self._start()
        return self._replay is not None and not self._away

    async def _caught_up(self) -> UpdateHistory:
        """Return the recent updates, once they include all that were published before this call.

        Raises `Unavailable` if the hub is closing.
        """
        while not self._closed:
            replay, end = self._replay, await self._channel.end()
            self._start()
            while self._replay is replay and not self._closed:
                if replay is not None and self._channel.reached(end, self._at):
                    return replay
                self._moved.clear()
                await self._moved.wait()
        raise Unavailable("live updates are shutting down")

    def _start(self) -> None:
        if not self._tasks and not self._closed:
            self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._refresh_outdated())]

    async def _follow(self) -> None:
        while True:
            try:
                await self._listen()
            except Gap:
                repeated, self._replay = self._replay is None, None
                if repeated:
                    await asyncio.sleep(_BACKOFF_SECONDS)
            except Unavailable as error:
                if not self._away:
                    _log.warning("live updates are delayed: %s", error)
                self._away = True
                await asyncio.sleep(_BACKOFF_SECONDS)
            except Exception:  # noqa: BLE001  # viewers must get later updates
                _log.exception("reading the update log failed")
                self._away = True
                await asyncio.sleep(_BACKOFF_SECONDS)

    async def _listen(self) -> None:
        """Follow the log from the last known position.

        Initially and after a gap, start `retained` updates before the end, to have them for viewers who reconnect.
        """
        replay, at, until = self._replay, self._at, self._at
        if replay is None:
            at, until = await self._channel.end(self._retained), await self._channel.end()
            self._away = False
            replay = UpdateHistory(at, self._retained)
            if at == until:
                self._go_live(replay, at)
        elif self._away:
            await self._channel.end()
            self._away = False
        async with aclosing(self._channel.follow(at)) as messages:
            async for position, message in messages:
                update = decode(message)
                replay.add(position, update)
                if self._replay is not None:
                    self._deliver(position, update)
                elif self._channel.reached(until, position):
                    self._go_live(replay, position)

    def _go_live(self, replay: UpdateHistory, position: Position) -> None:
        """Deliver updates from `position` on. Connected viewers may have missed earlier updates and must reload."""
        self._replay, self._at = replay, position
        for connection in self._matching.all_connections():
            connection.since = replay.next
            connection.miss(position)
            self._outdate(connection, None)
        self._on_merge(0)
        self._moved.set()

    def _deliver(self, position: Position, update: AnyUpdate | None) -> None:
        self._at = position
        if isinstance(update, SubscriptionChange):
            self._apply_change(update)
        elif isinstance(update, TagCloudMerged):
            self._on_merge(update.version)
        elif update is not None:
            placed = PlacedUpdate(position, update)
            for connection in self._matching.concerned(update):
                connection.offer(placed)
        self._moved.set()

    def _apply_change(self, update: SubscriptionChange) -> None:
        member = _member_of(update)
        # A server key acts for any member.
        concerned = self._matching.of(member) if member else self._matching.all_connections()
        for connection in list(concerned):
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

    async def _refresh_outdated(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._outdated:
                some = [self._outdated.popitem() for _ in range(min(_AT_ONCE, len(self._outdated)))]
                await asyncio.gather(*(self._refresh(*arguments) for arguments in some))

    async def _refresh(self, connection: Connection, sources: set[int] | None) -> None:
        try:
            await self._load(connection, sources)
        except Exception:  # noqa: BLE001  # the graph may be away: they are read when it is back
            self._outage.warning("reading the followees of a viewer failed", exc_info=True)
            await asyncio.sleep(_BACKOFF_SECONDS)
            if not connection.ended:
                self._outdate(connection, sources)

    async def _load(self, connection: Connection, sources: set[int] | None) -> None:
        """Read the sources that the viewer follows: all (None), or those among `sources`.

        Only one read runs per connection, so that an older result never replaces a newer one.
        """
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
            # The log has a gap. Once it is read again, the viewer is notified and all sources are reloaded.
            return
        if first:
            self._catch_up(connection, self._replay)
            return
        for _, update in self._replay.of(new, connection.since):
            # Offer an entry that was created after the viewer followed its source, even if its update arrived before
            # that of the follow.
            if isinstance(update, OfEntry) and any(
                update.entry_id > new[source] for source in update.sources() if source in new
            ):
                connection.offer(PlacedUpdate(self._at, update))

    def _catch_up(self, connection: Connection, replay: UpdateHistory) -> None:
        """Deliver the updates since `connection.since`, or `Missed` if some of them are no longer stored."""
        if connection.since < replay.first:
            connection.miss(self._at)
            return
        for placed in replay.of(connection.sources, connection.since, connection.viewer, connection.interest):
            connection.offer(placed)

    async def close(self) -> None:
        self._closed = True
        self._moved.set()
        for connection in self._matching.all_connections():
            connection.end()
        await cancel(*self._tasks)


def _member_of(update: SubscriptionChange) -> int:
    if isinstance(update, FollowChanged):
        return update.follower_id
    return update.owner_id if isinstance(update, ListChanged) else update.member_id
