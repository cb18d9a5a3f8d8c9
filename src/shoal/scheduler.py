"""Run due work and periodic maintenance.

`Agenda` processes due tickets, the entries of the schedule. It publishes scheduled posts, announces the end of polls,
deletes unattached media and members whose accounts are being deleted, and expires IP blocks and e-mail links. `Upkeep`
drops idle timelines, demotes high fan-out sources that have lost most of their followers, marks posts without recent
reactions as inactive, and drops expired entries of the audit log and the event log, tombstones, follow histories and keys.

Any number of processes may run the agenda concurrently, and any of them may stop at any moment. Each item is one commit
that also deletes its ticket, and is rejected if another process was first. The deletion of a member takes many commits
and resumes by itself (`commands/account_deletions.py`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from shoal.backoff import Backoff
from shoal.commands import account_deletions, blocklists, credentials, oauth, scheduled_posts
from shoal.commands.context import Writes
from shoal.core.blocklists import IpBlock
from shoal.core.email import EmailToken
from shoal.core.errors import Conflict, Held, ShoalError, Unavailable
from shoal.core.events import PollEnded
from shoal.core.ids import floor_at, milliseconds_of, now_ms, shard_of
from shoal.core.model import AccountDeletion, App, Media, Poll, ScheduledPost
from shoal.graph import media as life
from shoal.graph.changes import take_off
from shoal.graph.contract import Assoc, AssocOp, Batch, Cursor, Store
from shoal.graph.event_log import EventLog
from shoal.graph.schema import AGENDA, DUE, EVERYBODY, HISTORY_START, TOKEN_USE_START, AnyNode, tags_folded_key
from shoal.tasks import BackgroundWorker
from shoal.timelines.contract import Timelines

_log = logging.getLogger(__name__)

EVERY_SECONDS = 1.0
_IDLE_SECONDS = 5.0
"""Pause if nothing is due before: other processes may add a ticket that is due sooner."""
_PAGE = 200
_FIRST_SECONDS, _LONGEST_SECONDS = 2.0, 300.0
_REMEMBERED = 10_000


class Agenda(BackgroundWorker):
    """A background worker that processes due tickets between `start` and `stop`. `once` processes all tickets that are due now.

    `writes` must use the graph without its cache, because permanent changes, such as deletions, need current data.
    """

    task_name = "shoal-agenda"

    def __init__(self, writes: Writes, *, every: float = EVERY_SECONDS, clock: Callable[[], int] = now_ms) -> None:
        self._writes = writes
        self._every = every
        self._clock = clock
        self._next_due: int | None = None
        """When the next ticket is due, in milliseconds, as far as known; in the past for one that failed."""
        self._failed = Backoff(_FIRST_SECONDS, _LONGEST_SECONDS, _REMEMBERED, clock=lambda: clock() / 1_000)

    async def once(self) -> int:
        """Process all due tickets, and return their number.

        If a ticket fails, it is retried later. The other tickets do not wait for it.
        """
        now = self._clock()
        done, tried, after, end = 0, 0, -1, floor_at(now + 1)
        while True:
            page = await self._writes.graph.assoc_range(
                AGENDA, DUE, Cursor(after=after, limit=_PAGE, oldest_first=True)
            )
            due = [ticket for ticket in page if ticket.time < end]
            nodes = await self._writes.graph.obj_get([int.from_bytes(ticket.data) for ticket in due])
            for ticket in due:
                done += await self._attempt(ticket, nodes.get(int.from_bytes(ticket.data)))
            tried += len(due)
            if len(due) < _PAGE:
                following = milliseconds_of(page[len(due)].time) if len(due) < len(page) else None
                self._next_due = following if done == tried else now
                return done
            after = page[-1].time

    async def _run(self) -> None:
        while True:
            try:
                await self.once()
            except Exception:  # noqa: BLE001  # the store may recover
                _log.exception("reading the schedule failed")
            await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        """Return the seconds until the next ticket is due, within limits."""
        longest = max(_IDLE_SECONDS, self._every)
        if self._next_due is None:
            return longest
        return min(max((self._next_due - self._clock()) / 1_000, self._every), longest)

    async def _attempt(self, ticket: Assoc, node: AnyNode | None) -> bool:
        if self._failed.is_active(ticket.id2):
            return False
        try:
            await self._do(ticket, node)
        except Conflict:
            # Another process, or the member, has changed the object. If the ticket still exists, the next call of `once`
            # reads it again.
            return False
        except Exception as error:  # noqa: BLE001  # must not stop the others
            self._failed.extend(ticket.id2)
            _log.warning(
                "processing %s %d, which is due, failed; it will be retried",
                type(node).__name__,
                ticket.id2,
                exc_info=error,
            )
            return False
        self._failed.reset(ticket.id2)
        return True

    async def _do(self, ticket: Assoc, node: AnyNode | None) -> None:
        match node:
            case ScheduledPost(ticket_id=ticket.id2):
                await self._publish(node)
            case Poll(ticket_id=ticket.id2):
                await self._end(node)
            case Media(ticket_id=ticket.id2):
                await self._look_at(node)
            case App(ticket_id=ticket.id2):
                await oauth.drop_unused(self._writes, node)
            case IpBlock(ticket_id=ticket.id2):
                await blocklists.expire_ip_block(self._writes, node)
            case AccountDeletion(ticket_id=ticket.id2):
                await account_deletions.carry_out(self._writes, node)
            case EmailToken(ticket_id=ticket.id2):
                await credentials.end(self._writes, node)
            case _:
                # The object was deleted or rescheduled, so this ticket is obsolete.
                batch = Batch(shard_of(ticket.id2))
                take_off(batch, ticket.id2, self._writes.new_id(batch.shard))
                await self._writes.graph.commit(batch)

    async def _publish(self, scheduled: ScheduledPost) -> None:
        try:
            await scheduled_posts.publish(self._writes, scheduled)
        except (Conflict, Unavailable):
            raise
        except Held:
            # The post waits for the moderators, and is not scheduled any more.
            return
        except ShoalError as error:
            # Drop the scheduled post only if its author was deleted. Any other cause may disappear: a suspension may
            # end, a limit may be raised.
            owner = (await self._writes.graph.obj_get((scheduled.owner_id,))).get(scheduled.owner_id)
            if owner is None:
                await scheduled_posts.drop(self._writes, scheduled)
                return
            _log.warning("scheduled post %d was not published: %s", scheduled.id, error)
            await scheduled_posts.keep_refused(self._writes, scheduled, error, self._clock())

    async def _look_at(self, media: Media) -> None:
        """Delete media that were unused for a day and that no scheduled post names.

        For other media, renew or remove the ticket.
        """
        batch = Batch(shard_of(media.owner_id))
        ticket = self._writes.new_id(batch.shard)
        due = media.unused_since + life.UNUSED_MS
        if not media.unused_since:
            take_off(batch, media.ticket_id, ticket)
            batch.obj_set(replace(media, ticket_id=0, version=media.version + 1))
        elif due > self._clock():
            # A post has used the media after the ticket was written, so the media becomes due later.
            life.plan(batch, media, ticket, due)
        elif media.id in await scheduled_posts.planned_media(self._writes, media.owner_id):
            life.plan(batch, media, ticket, self._clock() + life.UNUSED_MS)
        else:
            await life.delete(self._writes.graph, self._writes.new_id, media)
            return
        await self._writes.graph.commit(batch)

    async def _end(self, poll: Poll) -> None:
        batch = Batch(shard_of(poll.id))
        batch.obj_set(replace(poll, ticket_id=0, version=poll.version + 1))
        take_off(batch, poll.ticket_id, self._writes.new_id(batch.shard))
        batch.emit(PollEnded(poll_id=poll.id))
        await self._writes.graph.commit(batch)


_EVERY_SECONDS = 600.0
_DAY_SECONDS = 86_400.0
_BELOW_ALL = -(2**63)


async def begin_histories(store: Store, tombstone_days: float) -> None:
    """Record the time since when all ended follows are kept, unless it is recorded already.

    A new network keeps all ended follows. An older network has deleted follows that ended more than `tombstone_days` ago.
    """
    if (await store.assoc_get(EVERYBODY, (HISTORY_START,), (EVERYBODY,)))[HISTORY_START]:
        return
    if await store.obj_scan(_BELOW_ALL, 1):
        await _note_histories(store, _days_before(now_ms(), tombstone_days))
        return
    batch = _histories_since(1)
    # In a new network, all tags are case-folded. Record this.
    batch.key_add(tags_folded_key(), EVERYBODY)
    await store.commit(batch)


async def begin_token_uses(store: Store, *, read_only: bool) -> int:
    """Return the time (Unix ms) since when token uses are recorded.

    If the store does not contain it, it is the current time, which is then stored unless `read_only` is set.
    """
    marks = (await store.assoc_get(EVERYBODY, (TOKEN_USE_START,), (EVERYBODY,)))[TOKEN_USE_START]
    if marks:
        return milliseconds_of(marks[EVERYBODY].time)
    now = now_ms()
    if not read_only:
        batch = Batch(shard_of(EVERYBODY))
        batch.put(AssocOp(EVERYBODY, TOKEN_USE_START.number, EVERYBODY, floor_at(now), alive=True, plain=True))
        await store.commit(batch)
    return now


async def _note_histories(store: Store, since: int) -> None:
    """Record that all follows that ended after the snowflake id `since` are kept, unless a later id is recorded."""
    await store.commit(_histories_since(since))


def _histories_since(since: int) -> Batch:
    batch = Batch(shard_of(EVERYBODY))
    batch.put(AssocOp(EVERYBODY, HISTORY_START.number, EVERYBODY, since, alive=True, plain=True))
    return batch


class Upkeep(BackgroundWorker):
    """A background worker for periodic maintenance between `start` and `stop`. `once` runs the maintenance now.

    `review` demotes high fan-out sources. `forget` marks posts without recent reactions as inactive; it gets the
    current time (Unix ms). `drop_audited` deletes audit log entries older than a snowflake id. `audit_days` is their
    retention; 0 means without limit. `log_days` is the retention of the event log.
    """

    task_name = "shoal-upkeep"

    def __init__(
        self,
        store: Store,
        timelines: Timelines,
        review: Callable[[], Awaitable[None]],
        forget: Callable[[int], Awaitable[None]],
        idle_days: float,
        tombstone_days: float,
        history_days: float,
        drop_audited: Callable[[int], Awaitable[None]],
        audit_days: float,
        log_days: float,
    ) -> None:
        self._store = store
        self._timelines = timelines
        self._review = review
        self._forget = forget
        self._idle_days = idle_days
        self._tombstone_days = tombstone_days
        # The tombstones of ended follows also prevent a late retry from restoring the follow, so they are kept at least as
        # long as other tombstones.
        self._history_days = max(tombstone_days, history_days)
        self._drop_audited = drop_audited
        self._audit_days = audit_days
        self._log_days = log_days
        self._histories_swept = -_DAY_SECONDS

    async def once(self) -> None:
        """Drop idle timelines, demote high fan-out sources, mark posts as inactive, and delete expired rows."""
        await self._timelines.drop_idle(self._idle_days * _DAY_SECONDS)
        await self._review()
        now = now_ms()
        await self._forget(now)
        if self._audit_days:
            await self._drop_audited(_days_before(now, self._audit_days))
        await self._store.sweep(_days_before(now, self._tombstone_days), now)
        await EventLog(self._store).trim(now - int(self._log_days * _DAY_SECONDS * 1000))
        if time.monotonic() - self._histories_swept >= _DAY_SECONDS:
            before = _days_before(now, self._history_days)
            if await self._store.sweep_history(before):
                await _note_histories(self._store, before)
            self._histories_swept = time.monotonic()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            try:
                await self.once()
            except Exception:  # noqa: BLE001  # retried next time
                _log.exception("maintenance failed")


def _days_before(now: int, days: float) -> int:
    return floor_at(now - int(days * _DAY_SECONDS * 1000))
