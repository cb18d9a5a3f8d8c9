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
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from weakref import WeakValueDictionary

from shoal.core.errors import TooManyStreams, Unavailable
from shoal.graph.contract import Reader
from shoal.streaming.connections import Connection, Matching, SharedFeed
from shoal.streaming.contract import Channel, Gap, Position
from shoal.streaming.history import PlacedUpdate, UpdateHistory
from shoal.streaming.subscriptions import HOME, FeedInterest, Interest, after_change
from shoal.streaming.updates import (
    AnyUpdate,
    FollowChanged,
    ListChanged,
    MemberSuspended,
    NamedFeedChanged,
    OfEntry,
    SessionsEnded,
    SubscriptionChange,
    TagCloudMerged,
    decode,
)
from shoal.tasks import cancel
from shoal.throttled_log import ThrottledLog

_log = logging.getLogger(__name__)

_BACKOFF_SECONDS = 0.5
_FULL_SECONDS = 60.0
_AT_ONCE = 16


class Hub:
    """Distributes the updates of the log to the viewers connected to this process.

    The hub follows the log from the first connection or call of `follow` on. It keeps `retained` updates for viewers who
    reconnect; at most `capacity` updates wait for one viewer. Newer entries of a ranked feed are reported to a viewer every
    `spacing` seconds at most. `most_feeds` connections may have named feeds, and `most_feeds_of_viewer` of each viewer. `on_merge`
    is called with each new version of the tag cloud, and with 0 when some may have been missed.
    """

    def __init__(
        self,
        channel: Channel,
        graph: Reader,
        *,
        capacity: int = 200,
        retained: int = 5_000,
        spacing: float = 10.0,
        most_feeds: int = 10_000,
        most_feeds_of_viewer: int = 50,
        on_merge: Callable[[int], None] = lambda _version: None,
    ) -> None:
        self._channel = channel
        self._graph = graph
        self._capacity = capacity
        self._retained = retained
        self.spacing = spacing
        self.most_feeds = most_feeds
        self.most_feeds_of_viewer = most_feeds_of_viewer
        self._feeds: Counter[int] = Counter()
        self._shared_feeds: WeakValueDictionary[int, SharedFeed] = WeakValueDictionary()
        self._on_merge = on_merge
        self._matching = Matching()
        # None before the start, and after a gap until the hub has caught up.
        self._replay: UpdateHistory | None = None
        self._at = Position("")
        self._received = 0
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
        `session` is revoked.

        Raises `Unavailable` if the channel cannot be reached, or the hub is closing, `NotFound` if the viewer may not read a named
        feed, and `TooManyStreams` if too many connections of the viewer or of the process have named feeds.
        """
        feeds = int(isinstance(to, FeedInterest))
        if feeds:
            self._check_feeds(viewer)
        self._feeds[viewer] += feeds
        try:
            async with self._connected(viewer, after, to, session) as connection:
                yield connection
        finally:
            self._feeds[viewer] -= feeds
            if not self._feeds[viewer]:
                del self._feeds[viewer]

    def _check_feeds(self, viewer: int) -> None:
        if self._feeds[viewer] >= self.most_feeds_of_viewer:
            raise TooManyStreams(
                f"feed: at most {self.most_feeds_of_viewer} streams of named feeds per account (got {self._feeds[viewer] + 1})",
                retry_after=_FULL_SECONDS,
            )
        if self._feeds.total() >= self.most_feeds:
            raise TooManyStreams(
                f"The server has {self.most_feeds} streams of named feeds, which is the maximum; try again later",
                retry_after=_FULL_SECONDS,
            )

    @asynccontextmanager
    async def _connected(
        self, viewer: int, after: Position | None, to: Interest, session: int
    ) -> AsyncIterator[Connection]:
        replay = await self._caught_up()
        since = replay.next if after is None else replay.after(after)
        start = self._at if after is None or since is None else after
        number = replay.next if since is None else since
        connection = Connection(viewer, to, self._capacity, number, start, session, self.spacing, delivered=start)
        if isinstance(to, FeedInterest):
            shared = SharedFeed(to.feed_id, lambda: self._received)
            connection.shared_feed = self._shared_feeds.setdefault(to.feed_id, shared)
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
        self._received += 1
        for connection in self._matching.all_connections():
            connection.since = replay.next
            connection.former.clear()
            connection.feed_changed = _UNKNOWN_TIME
            connection.miss(position)
            self._outdate(connection, None)
        self._on_merge(0)
        self._moved.set()

    def _deliver(self, position: Position, update: AnyUpdate | None) -> None:
        self._at = position
        self._received += 1
        if isinstance(update, SubscriptionChange):
            self._apply_change(position, update)
        elif isinstance(update, TagCloudMerged):
            self._on_merge(update.version)
        elif update is not None:
            placed = PlacedUpdate(position, update)
            for connection in self._matching.concerned(update):
                connection.offer(placed)
        self._moved.set()

    def _apply_change(self, position: Position, update: SubscriptionChange) -> None:
        if isinstance(update, NamedFeedChanged):
            concerned = self._matching.following(update.feed_id)
            for connection in concerned:
                connection.feed_changed = _earlier(connection.feed_changed, update.time)
                connection.offer(PlacedUpdate(position, update))
        else:
            member = _member_of(update)
            # A server key acts for any member.
            concerned = self._matching.of(member) if member else self._matching.all_connections()
        for connection in list(concerned):
            if isinstance(update, MemberSuspended) or (
                isinstance(update, SessionsEnded) and connection.session in update.token_ids
            ):
                connection.dismiss()
                continue
            reading = not connection.loaded or connection.loading.locked()
            sources = connection.interest.outdated_by(update, None if reading else connection.sources)
            if sources is not None:
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
            if connection.ended:
                return
            self._outage.warning("reading the followees of a viewer failed", exc_info=True)
            await asyncio.sleep(_BACKOFF_SECONDS)
            if not connection.ended:
                self._outdate(connection, sources)

    async def _load(self, connection: Connection, sources: set[int] | None) -> None:
        """Read the sources that the viewer follows: all (None), or those among `sources`.

        Only one read runs per connection, so that an older result never replaces a newer one.
        """
        interest = connection.interest
        async with connection.loading:
            replay, known = self._replay, connection.sources
            number = 0 if replay is None else replay.next
            changed = 0
            if sources is None:
                changed, connection.feed_changed = connection.feed_changed, 0
            try:
                followed = await self._followed(connection, sources)
            except BaseException:
                connection.feed_changed = _earlier(changed, connection.feed_changed)
                raise
            if connection.ended:
                return
            first = not connection.loaded
            new = self._install(connection, followed, known if sources is None else sources, changed)
            # A feed that the connection did not follow yet may have changed while it was read.
            if replay is not None and replay is self._replay and isinstance(interest, FeedInterest):
                for update in replay.changes_of_feeds(new, number):
                    connection.feed_changed = _earlier(connection.feed_changed, update.time)
                    self._outdate(connection, None)
                    # A new connection has caught up with all updates.
                    if not first:
                        connection.offer(PlacedUpdate(self._at, update))

    async def _followed(self, connection: Connection, sources: Collection[int] | None) -> Mapping[int, int]:
        interest, viewer = connection.interest, connection.viewer
        if isinstance(interest, FeedInterest) and connection.shared_feed is not None:
            read = connection.shared_feed.read
            return await interest.of_feed(self._graph, viewer, connection.sources, read, sources)
        if sources is None:
            return await interest.sources(self._graph, viewer)
        return await interest.which_of(self._graph, viewer, sources)

    def _install(
        self, connection: Connection, followed: Mapping[int, int], asked: Collection[int], changed: int
    ) -> Collection[int]:
        """Follow the sources that were read, offer the updates that were missed for the new ones, and return these.

        `asked` are the sources that were to be read, and `changed` is an id of the time of the first change of the feed since the
        previous time; 0 for none.
        """
        first, connection.loaded = not connection.loaded, True
        # A source that a change of the feed added is followed when the update on this change arrives, because it needs its time.
        new = {
            source: time or after_change(changed)
            for source, time in followed.items()
            if source not in connection.sources and (first or time or changed)
        }
        gone = connection.sources.intersection(asked) - followed.keys()
        self._matching.unfollow(connection, gone)
        self._matching.follow(connection, new)
        replay = self._replay
        if replay is None:
            # The log has a gap. Once it is read again, the viewer is notified and all sources are reloaded.
            return new
        if first:
            self._catch_up(connection, replay)
            return new
        if isinstance(connection.interest, FeedInterest):
            former = {source: number for source, number in connection.former.items() if number > replay.first}
            connection.former = former | dict.fromkeys(gone, replay.next)
        for number, (_, update) in replay.of(new, connection.since):
            # Offer an entry that was created after the viewer followed its source, even if its update arrived before
            # that of the follow.
            if (
                isinstance(update, OfEntry)
                and any(update.entry_id > new[source] for source in update.sources() if source in new)
                and not _was_offered(connection, new, number, update)
            ):
                connection.offer(PlacedUpdate(self._at, update))
        return new

    def _catch_up(self, connection: Connection, replay: UpdateHistory) -> None:
        """Deliver the updates since `connection.since`, or `Missed` if some of them are no longer stored."""
        if connection.since < replay.first:
            connection.miss(self._at)
            return
        for _, placed in replay.of(connection.sources, connection.since, connection.viewer, connection.interest):
            connection.offer(placed)

    async def close(self) -> None:
        self._closed = True
        self._moved.set()
        for connection in self._matching.all_connections():
            connection.end()
        await cancel(*self._tasks)


_UNKNOWN_TIME = 1


def _earlier(time: int, other: int) -> int:
    """Return the earlier of two times; 0 is none."""
    return min(time or other, other or time)


def _was_offered(connection: Connection, new: Collection[int], number: int, update: OfEntry) -> bool:
    """Return whether a connection to a named feed had a source of this update when it arrived."""
    return isinstance(connection.interest, FeedInterest) and any(
        number < connection.former.get(source, 0) or (source in connection.sources and source not in new)
        for source in update.sources()
    )


def _member_of(update: FollowChanged | ListChanged | SessionsEnded | MemberSuspended) -> int:
    if isinstance(update, FollowChanged):
        return update.follower_id
    return update.owner_id if isinstance(update, ListChanged) else update.member_id
