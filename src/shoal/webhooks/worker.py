"""The worker that delivers the event log to the endpoints of webhooks: in order, and each event at least once.

The queue of an endpoint is the event log after its position, so an endpoint that is slow or fails delays no other. One process at
a time delivers to an endpoint: it holds a lease, which it took by a commit that names the version of the endpoint. Each commit of
progress checks the lease and extends it. A process that was killed, or has lost the lease, may have delivered events that the next
one delivers again, with equal ids.

Progress is committed after a page of events, after a failure, and about once a second. An event that fails is retried for three
days, while later events wait for it. Then it is parked. If the event after a parked one fails for an hour, the endpoint is paused.
These times are the sum of the pauses between the attempts, so a jump of the clock counts as one pause at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import httpcore
import msgspec
from msgspec.structs import replace

from shoal.backoff import Backoff
from shoal.core.audit import AuditVerb
from shoal.core.email import MailKind
from shoal.core.errors import InvalidInput, NotFound, ShoalError, Unavailable
from shoal.core.events import MailDue
from shoal.core.ids import IdMaker, now_ms, shard_of
from shoal.core.model import App, Member, Role
from shoal.core.webhooks import (
    LONGEST_RETRY_MS,
    MAX_WEBHOOKS,
    NO_FAILURE,
    PROBE_MS,
    RETRY_MS,
    Delivery,
    Pause,
    Webhook,
    WebhookLog,
    backoff_ms,
    host_of,
    valid_secrets,
)
from shoal.graph.access import get_object, objects_of
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, Cursor, CursorTooOld, Graph, LogEntry, find_object
from shoal.graph.schema import EVERYBODY, PARKED_EVENTS, STAFF
from shoal.outgoing import Network, open_pool
from shoal.queries.event_data import AuditData
from shoal.queries.event_filter import selector
from shoal.queries.events import END, Event, EventPage, EventReader
from shoal.tasks import BackgroundWorker, cancel
from shoal.throttled_log import ThrottledLog
from shoal.webhooks import endpoints
from shoal.webhooks.endpoints import Lag

_log = logging.getLogger("shoal.webhooks")
_throttled = ThrottledLog(_log)

EVERY_SECONDS = 1.0
_IDLE_SECONDS = 10.0
"""Pause between two looks if there are no endpoints."""
LEASE_MS = 15_000
"""Longer than a request and a commit take together."""
_SAVE_SECONDS = 1.0
PAGE = 20
_MOVE_MS = 300_000
"""How often the position is written if no event matches, so that other processes can tell the lag."""
_RELEASE_SECONDS = 2.0
_MISSING_SECONDS = 120.0
"""How long events must be missing until an endpoint is paused."""
_MAX_MAILS = 20
_GONE = 410
_BACKOFF_SECONDS, _LONGEST_BACKOFF = 5.0, 300.0

_RELEASED: Final[Mapping[str, Any]] = {"lease": "", "leased_until": 0}

_Queue = tuple[str, str, str]
"""What determines the next events for an endpoint: its position, types and filter."""

Renderer = Callable[[str, Event], Awaitable[bytes | None]]
"""Returns the body for an event under its name in Mastodon's webhooks; None if its object is gone."""


class _LeaseLost(Exception):
    """Another process delivers to the endpoint, or the endpoint was deleted."""


class WebhookWorker(BackgroundWorker):
    """A background worker that delivers events between `start` and `stop`. `once` starts the deliveries that are due now.

    Any number of processes may run it. `graph` must not be stale. `every` and the clocks are for tests. A worker that finds no
    event log when it starts ends, so a network without one costs no further reads.
    """

    task_name = "shoal-webhooks"

    def __init__(
        self,
        graph: Graph,
        new_id: IdMaker,
        events: EventReader,
        render: Renderer,
        allowed: Sequence[Network] = (),
        *,
        every: float = EVERY_SECONDS,
        clock: Callable[[], int] = now_ms,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.graph = graph
        self.new_id = new_id
        self.events = events
        self.render = render
        self.clock = clock
        self.monotonic = monotonic
        self.reached: dict[int, tuple[_Queue, str]] = {}
        """A position up to which no event is for the endpoint, with the queue in which it was found, by endpoint."""
        self.missing: dict[int, tuple[str, float]] = {}
        """Positions after which events seem to be missing, and when that was first noticed (monotonic), by endpoint."""
        self.results: Counter[str] = Counter()
        """Number of requests of this process, by `Delivery.result`."""
        self.has_log: bool | None = None
        """Whether the network keeps an event log; None until the worker has looked."""
        self._allowed = allowed
        self._pool: httpcore.AsyncConnectionPool | None = None
        self._every = every
        self._backoff = Backoff(_BACKOFF_SECONDS, _LONGEST_BACKOFF, 2 * MAX_WEBHOOKS, clock=monotonic)
        """Delays the runs of endpoints whose last run ended with an error that is not theirs, such as one of the store."""
        self._runs: dict[int, asyncio.Task[None]] = {}
        self._looked = -math.inf
        """Time of the last look at the endpoints on the monotonic clock."""
        self._failures: dict[int, tuple[tuple[str, int], float]] = {}
        """The failing event and its attempts, and a time before the last of them (monotonic), by endpoint."""

    @property
    def pool(self) -> httpcore.AsyncConnectionPool:
        # Opened at the first use: it reads the certificates of the system, and most networks have no webhook.
        if self._pool is None:
            self._pool = open_pool(self._allowed, MAX_WEBHOOKS)
        return self._pool

    async def once(self) -> bool:
        """Start to deliver to all endpoints that are due. Return whether there are any endpoints."""
        looked = self.monotonic()
        found, now, end = await endpoints.all_of(self.graph), self.clock(), ""
        self._failures = {webhook.id: self._failure(webhook) for webhook in found}
        self._looked = looked
        if len(found) > 1:
            # One look at the end of the log replaces one for each endpoint that has reached it.
            with contextlib.suppress(ShoalError):
                end = await self.events.position(END)
        for webhook in found:
            if self.reached.get(webhook.id) == (_queue(webhook), end) and not _is_due_at_end(webhook, now):
                continue
            if webhook.id not in self._runs and self.is_due(webhook) and not self._backoff.is_active(webhook.id):
                task = asyncio.create_task(self._deliver(webhook), name="shoal-webhook")
                self._runs[webhook.id] = task
                task.add_done_callback(partial(self._ended, webhook.id))
        ids = {webhook.id for webhook in found}
        self.reached = {id_: reached for id_, reached in self.reached.items() if id_ in ids}
        self.missing = {id_: missing for id_, missing in self.missing.items() if id_ in ids}
        return bool(found)

    def _failure(self, webhook: Webhook) -> tuple[tuple[str, int], float]:
        state = webhook.failing_id, webhook.attempts
        known, before = self._failures.get(webhook.id, (state, -math.inf))
        return state, before if known == state else self._looked

    def is_due(self, webhook: Webhook) -> bool:
        """Return whether a process may deliver to an endpoint now."""
        # Another process may have a clock that is far ahead: its lease and its retries count only as long as they usually last.
        is_leased = webhook.lease and 0 < webhook.leased_until - self.clock() <= 2 * LEASE_MS
        ready = webhook.replaying or self.is_ready(webhook)
        return webhook.paused is not Pause.NO_KEY and ready and not is_leased

    def is_ready(self, webhook: Webhook) -> bool:
        """Return whether an endpoint is not paused, and its next event may be sent now.

        A pause after a failure is measured by the monotonic clock, or by the system's if it began before the first look.
        """
        _, before = self._failure(webhook)
        waits = self.waited_ms(webhook) < webhook.wait_ms
        if before == -math.inf:
            waits = 0 < webhook.retry_at - self.clock() <= LONGEST_RETRY_MS
        return not webhook.paused and not waits

    def waited_ms(self, webhook: Webhook) -> int:
        """Return how much of the pause after the last failed delivery has passed, by the monotonic clock.

        For a failure before the first look of this process, that is the whole pause.
        """
        _, before = self._failure(webhook)
        return round(min(webhook.wait_ms, 1_000 * (self.monotonic() - before)))

    async def _deliver(self, webhook: Webhook) -> None:
        try:
            await _Run(self, webhook).run()
            self._backoff.reset(webhook.id)
        except _LeaseLost:
            # The other process continues from the last commit.
            return
        except Exception:  # noqa: BLE001  # a later run continues
            seconds = self._backoff.extend(webhook.id)
            _log.exception("delivering to webhook %d failed, and continues in %.0f seconds", webhook.id, seconds)

    def _ended(self, id_: int, _task: object) -> None:
        del self._runs[id_]

    async def read(self, webhook: Webhook, limit: int) -> EventPage:
        """Return the next events for an endpoint. The first of them may be delivered already."""
        access = endpoints.access_of(webhook)
        return await self.events.read(self._start(webhook), _types(webhook), access, limit, selector(webhook.filter))

    def _start(self, webhook: Webhook) -> str:
        queue, reached = self.reached.get(webhook.id, (None, ""))
        return reached if queue == _queue(webhook) else webhook.position

    async def lag(self, webhook: Webhook) -> Lag:
        """Count the events that an endpoint has not accepted yet."""
        return await endpoints.lag(self.events, webhook, self.clock(), self._start(webhook))

    async def settle(self) -> None:
        """Deliver everything that is due now, and wait for it."""
        await self.once()
        await asyncio.gather(*self._runs.values())

    async def _look_for_log(self) -> None:
        try:
            await self.events.position(END)
        except InvalidInput:
            self.has_log = False
        else:
            self.has_log = True

    async def _run(self) -> None:
        busy = True
        while True:
            await asyncio.sleep(self._every if busy else max(self._every, _IDLE_SECONDS))
            try:
                if self.has_log is None:
                    await self._look_for_log()
                if not self.has_log:
                    return
                busy = await self.once()
            except Exception:  # noqa: BLE001  # the store may recover
                _throttled.exception("reading the webhooks failed")

    async def stop(self) -> None:
        await super().stop()
        await cancel(*self._runs.values())
        if self._pool is not None:
            await self._pool.aclose()


def _is_due_at_end(webhook: Webhook, now: int) -> bool:
    """Return whether there is work for an endpoint that has reached the end of the log."""
    return bool(webhook.replaying or webhook.attempts) or abs(now - webhook.moved_at) >= _MOVE_MS


class _Run:
    """The deliveries of one process to one endpoint, until there is no event left or one fails."""

    def __init__(self, worker: WebhookWorker, webhook: Webhook) -> None:
        self._worker = worker
        self._webhook = webhook
        self._lease = secrets.token_hex(8)
        self._made: list[Delivery] = []
        """Deliveries that are not in the log yet."""
        self._done: list[str] = []
        """Ids of events that were delivered since the last commit."""
        self._saved_at: float | None = None
        """Time of the last commit on the monotonic clock, in seconds."""

    async def run(self) -> None:
        """Deliver all due events. Raises `_LeaseLost`, and the errors of stores."""
        if not await self._has_work():
            return
        await self._save()
        try:
            await self._work()
        finally:
            await self._release()

    async def _has_work(self) -> bool:
        """Return whether there is anything to deliver or to store. Nothing is written, so an idle endpoint costs one read."""
        webhook, worker = self._webhook, self._worker
        if webhook.replaying:
            return True
        try:
            page = await worker.read(webhook, PAGE)
        except CursorTooOld:
            if self._is_expired():
                return True
            raise
        worker.missing.pop(webhook.id, None)
        due = _is_due_at_end(webhook, worker.clock()) and (page.position != webhook.position or webhook.attempts)
        if page.events or page.more or due:
            return True
        worker.reached[webhook.id] = _queue(webhook), page.position
        return False

    def _is_expired(self) -> bool:
        """Return whether events have been missing for a while. During a shard move, a process may not know all stores yet."""
        webhook, now = self._webhook, self._worker.monotonic()
        position, since = self._worker.missing.get(webhook.id, ("", now))
        if position != webhook.position:
            self._worker.missing[webhook.id] = webhook.position, now
            return False
        return now - since >= _MISSING_SECONDS

    async def _work(self) -> None:
        if self._webhook.key_id and await find_object(self._worker.graph, App, self._webhook.key_id) is None:
            await self._pause(Pause.NO_KEY)
            return
        while self._webhook.replaying:
            await self._replay()
        if self._worker.is_ready(self._webhook):
            while await self._deliver_page():
                pass

    async def _replay(self) -> None:
        """Deliver the oldest parked event again, as its object is now. A failure ends the replay."""
        worker, webhook = self._worker, self._webhook
        found = await endpoints.oldest_parked(worker.graph, webhook)
        if found is None:
            await self._save(replaying=False)
            return
        row, entry = found
        access, selects = endpoints.access_of(webhook), selector(webhook.filter)
        event = await worker.events.rebuild(entry, _types(webhook), access, selects)
        delivery = await self._send(event) if event else None

        def drop(batch: Batch, _before: Webhook) -> None:
            batch.assoc_del(webhook.id, PARKED_EVENTS, row.id2, worker.new_id(batch.shard))

        if delivery is None:
            await self._save(drop)
        elif delivery.succeeded:
            await self._save(drop, parked_last=False)
        elif delivery.status == _GONE:
            await self._pause(Pause.GONE)
        else:
            await self._save(replaying=False)

    async def _deliver_page(self) -> bool:
        """Deliver the next events; return whether there are more."""
        try:
            page = await self._worker.read(self._webhook, PAGE)
        except CursorTooOld:
            if not self._is_expired():
                raise
            await self._pause(Pause.EXPIRED)
            return False
        queue = _queue(self._webhook)
        for event, entry in zip(page.events, page.entries, strict=True):
            if _queue(self._webhook) != queue:
                # The types or the filter were changed: read the rest of the page again.
                return True
            if event.id not in self._webhook.delivered and not await self._deliver(event, entry):
                return False
        end: Mapping[str, Any] = {} if page.more else _RELEASED
        # An event that failed before may be missing from the page: its object was deleted.
        changes = {"position": page.position, "moved_at": self._worker.clock(), "delivered": (), **NO_FAILURE}
        await self._save(**changes, **end)
        return page.more

    async def _deliver(self, event: Event, entry: LogEntry) -> bool:
        """Deliver an event, or record the failure. Return whether to continue with the next event."""
        delivery = await self._send(event)
        if delivery is not None and not delivery.succeeded:
            return await self._fail(entry, delivery)
        self._done.append(event.id)
        if delivery is not None and (self._webhook.attempts or self._webhook.parked_last):
            await self._save(parked_last=False, **NO_FAILURE)
        elif self._saved_at is None or time.monotonic() - self._saved_at >= _SAVE_SECONDS:
            await self._save()
        return not self._webhook.paused

    async def _send(self, event: Event) -> Delivery | None:
        """Send an event in the format of the endpoint. The result is None if it is not to be sent."""
        worker, webhook = self._worker, self._webhook
        name = event.type if webhook.format == "standard" else mastodon_name(event)
        try:
            body = await self._rendered(name, event)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001  # an object that cannot be rendered must not delay later events permanently
            _log.exception("rendering event %s for webhook %d failed", event.id, webhook.id)
            made = Delivery(
                worker.clock(), event.id, name, 0, 0, f"the event could not be rendered: {type(error).__name__}"
            )
        else:
            if not body:
                return None
            made = await endpoints.send(worker.pool, webhook, event.id, name, body, worker.clock())
        self._made.append(made)
        worker.results[made.result] += 1
        return made

    async def _rendered(self, name: str, event: Event) -> bytes:
        """Return the body of an event; empty if it is not to be sent."""
        if self._webhook.format == "standard":
            return msgspec.json.encode(event)
        is_chosen = not self._webhook.types or name in map(str.strip, self._webhook.types.split(","))
        return (await self._worker.render(name, event) if name and is_chosen else None) or b""

    async def _fail(self, entry: LogEntry, delivery: Delivery) -> bool:
        """Record a failed delivery. Return whether to continue with the next event, because this one was parked."""
        webhook = self._webhook
        attempts, failing_ms = 1, 0
        if webhook.failing_id == entry.id:
            attempts, failing_ms = webhook.attempts + 1, webhook.failing_ms + self._worker.waited_ms(webhook)
        if delivery.status == _GONE:
            await self._pause(Pause.GONE)
        elif failing_ms < (PROBE_MS if webhook.parked_last else RETRY_MS):
            wait_ms = backoff_ms(attempts, random.random())  # noqa: S311
            failure: dict[str, Any] = {
                "failing_id": entry.id,
                "attempts": attempts,
                "failing_ms": failing_ms,
                "wait_ms": wait_ms,
                "retry_at": self._worker.clock() + wait_ms,
            }
            await self._save(**failure, **_RELEASED)
        elif webhook.parked_last:
            await self._pause(Pause.FAILING)
        elif not await endpoints.may_park(self._worker.graph, webhook):
            await self._pause(Pause.FULL)
        else:
            _log.warning("webhook %d: event %s failed for three days and was parked", webhook.id, entry.id)
            self._done.append(entry.id)

            def park(batch: Batch, _before: Webhook) -> None:
                endpoints.park(batch, webhook, self._worker.new_id(batch.shard), entry)

            await self._save(park, parked_last=True, **NO_FAILURE)
            return not self._webhook.paused
        return False

    async def _pause(self, reason: Pause) -> None:
        """Pause the endpoint, and send a mail to all admins."""
        graph, new_id = self._worker.graph, self._worker.new_id
        listed = await graph.assoc_range(EVERYBODY, STAFF, Cursor(limit=1_000))
        staff = await objects_of(graph, Member, [assoc.id2 for assoc in listed])
        admins = [member.id for member in staff if member.role is Role.ADMIN][:_MAX_MAILS]

        def mail(batch: Batch, before: Webhook) -> None:
            for id_ in [] if before.paused or reason is Pause.NO_KEY else admins:
                host = host_of(self._webhook.url)
                batch.emit(
                    MailDue(
                        kind=MailKind.WEBHOOK_PAUSED,
                        asked=new_id(batch.shard),
                        member_id=id_,
                        webhook=host,
                        pause=reason.value,
                    )
                )

        _log.warning("webhook %d was paused (%s)", self._webhook.id, reason)
        await self._save(mail, paused=reason, replaying=False, **NO_FAILURE, **_RELEASED)

    async def _release(self) -> None:
        """End the lease, so that another process need not wait for it, and store the delivered ids."""
        if self._webhook.lease:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_RELEASE_SECONDS):
                    await self._save(**_RELEASED)

    async def _save(self, extra: Callable[[Batch, Webhook], None] = lambda *_: None, **changes: Any) -> None:
        """Commit the progress and the log of deliveries, and take or extend the lease. Raises `_LeaseLost`.

        A pause that was made in the meantime stays.
        """
        graph, id_ = self._worker.graph, self._webhook.id

        async def attempt() -> Webhook:
            now = self._worker.clock()
            try:
                before = await get_object(graph, Webhook, id_)
            except NotFound as error:
                raise _LeaseLost from error
            if before.lease != self._lease and (self._saved_at is not None or not self._worker.is_due(before)):
                raise _LeaseLost
            batch = Batch(shard_of(id_))
            ignored: set[str] = set()
            if _queue(before) != _queue(self._webhook):
                # The types or the filter were changed: the rest of the page is read again from the former position.
                ignored |= {"position", "moved_at", "delivered"}
            if before.url != self._webhook.url:
                ignored |= NO_FAILURE.keys()
            values = {
                "lease": self._lease,
                "leased_until": now + LEASE_MS,
                "delivered": (*before.delivered, *self._done),
                "secrets": valid_secrets(before.secrets, now),
                **{name: value for name, value in changes.items() if name not in ignored},
                **({"paused": before.paused} if before.paused else {}),
            }
            after = replace(before, **values, version=before.version + 1)
            batch.obj_set(after)
            if self._made:
                log = await get_object(graph, WebhookLog, before.log_id)
                batch.obj_set(replace(endpoints.logged(log, self._made), version=log.version + 1))
            extra(batch, before)
            await graph.commit(batch)
            return after

        self._webhook = await retry_on_conflict(attempt)
        self._made.clear()
        self._done.clear()
        self._saved_at = time.monotonic()


def _queue(webhook: Webhook) -> _Queue:
    return webhook.position, webhook.types, webhook.filter


def _types(webhook: Webhook) -> str:
    return endpoints.event_types(webhook.format, webhook.types)


def mastodon_name(event: Event) -> str:
    """Return the name of an event in Mastodon's webhooks; empty if it has none."""
    noun, _, change = event.type.partition(".")
    if isinstance(event.data, AuditData):
        return "account.approved" if event.data.verb is AuditVerb.SIGN_UP_APPROVED else ""
    names = {"member": "account", "post": "status", "report": "report"}
    return f"{names[noun]}.{change}" if noun in names and change != "deleted" else ""
