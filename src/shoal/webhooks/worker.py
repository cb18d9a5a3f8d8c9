"""The worker that delivers the event log to the endpoints of webhooks: in order, and each event at least once.

The queue of an endpoint is the event log after its position, so an endpoint that is slow or fails delays no other. One process at
a time delivers to an endpoint: it holds a lease, which it took by a commit that names the version of the endpoint. Each commit of
progress checks the lease and extends it. A process that was killed, or has lost the lease, may have delivered events that the next
one delivers again, with equal ids.

Progress is committed after a page of events, after a failure, and about once a second. An event that fails is retried for three
days, while later events wait for it. Then it is parked. If the event after a parked one fails too, the endpoint is paused.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from shoal.core.audit import AuditVerb
from shoal.core.email import MailKind
from shoal.core.errors import NotFound
from shoal.core.events import MailDue
from shoal.core.ids import IdMaker, now_ms, shard_of
from shoal.core.model import App, Member, Role
from shoal.core.webhooks import (
    MAX_WEBHOOKS,
    NO_FAILURE,
    RETRY_MS,
    Delivery,
    ParkedEvent,
    Pause,
    Webhook,
    WebhookLog,
    backoff_ms,
)
from shoal.graph.access import get_object, objects_of
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, Cursor, CursorTooOld, Graph, find_object
from shoal.graph.schema import EVERYBODY, PARKED_EVENTS, STAFF
from shoal.outgoing import Network, open_pool
from shoal.queries.event_data import AuditData
from shoal.queries.events import Access, Event, EventPage, EventReader
from shoal.tasks import BackgroundWorker, cancel
from shoal.webhooks import endpoints

_log = logging.getLogger("shoal.webhooks")

EVERY_SECONDS = 1.0
_IDLE_SECONDS = 10.0
"""Pause between two looks if there are no endpoints."""
LEASE_MS = 15_000
"""Longer than a request and a commit take together."""
_SAVE_MS = 1_000
PAGE = 20
_MOVE_MS = 3_600_000
"""How often the position is written if no event matches, so that it does not become too old."""
_RELEASE_SECONDS = 2.0
_MAX_MAILS = 20

_RELEASED: Final[Mapping[str, Any]] = {"lease": "", "leased_until": 0}

Renderer = Callable[[str, Event], Awaitable[bytes | None]]
"""Returns the body for an event under its name in Mastodon's webhooks; None if its object is gone."""


class _LeaseLost(Exception):
    """Another process delivers to the endpoint, or the endpoint was deleted."""


class WebhookWorker(BackgroundWorker):
    """A background worker that delivers events between `start` and `stop`. `once` starts what is due now.

    Any number of processes may run it. `graph` must not be stale. `every` and `clock` are for tests.
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
    ) -> None:
        self.graph = graph
        self.new_id = new_id
        self.events = events
        self.render = render
        self.clock = clock
        self.pool = open_pool(allowed, MAX_WEBHOOKS)
        self.reached: dict[int, tuple[str, str]] = {}
        """A position up to which no event is for the endpoint, with the stored position that it continues, by endpoint."""
        self._every = every
        self._runs: dict[int, asyncio.Task[None]] = {}

    async def once(self) -> bool:
        """Start to deliver to all endpoints that are due. Return whether there are any endpoints."""
        found, now = await endpoints.all_of(self.graph), self.clock()
        for webhook in found:
            if webhook.id not in self._runs and _is_due(webhook, now):
                task = asyncio.create_task(_Run(self, webhook).run(), name="shoal-webhook")
                self._runs[webhook.id] = task
                task.add_done_callback(partial(self._ended, webhook.id))
        ids = {webhook.id for webhook in found}
        self.reached = {id_: reached for id_, reached in self.reached.items() if id_ in ids}
        return bool(found)

    def _ended(self, id_: int, _task: object) -> None:
        del self._runs[id_]

    async def settle(self) -> None:
        """Deliver everything that is due now, and wait for it."""
        await self.once()
        await asyncio.gather(*self._runs.values())

    async def _run(self) -> None:
        busy = True
        while True:
            await asyncio.sleep(self._every if busy else max(self._every, _IDLE_SECONDS))
            try:
                busy = await self.once()
            except Exception:  # noqa: BLE001  # the store may recover
                _log.exception("reading the webhooks failed")

    async def stop(self) -> None:
        await super().stop()
        await cancel(*self._runs.values())
        await self.pool.aclose()


def _is_due(webhook: Webhook, now: int) -> bool:
    ready = webhook.replaying or (not webhook.paused and webhook.retry_at <= now)
    return ready and (not webhook.lease or webhook.leased_until <= now)


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
        self._saved_at = 0

    async def run(self) -> None:
        try:
            if not await self._has_work():
                return
            await self._save()
            try:
                await self._work()
            finally:
                await self._release()
        except _LeaseLost:
            # The other process continues from the last commit.
            return
        except Exception:  # noqa: BLE001  # the store may recover, and the next run continues
            _log.exception("delivering to webhook %d failed", self._webhook.id)

    async def _has_work(self) -> bool:
        """Return whether there is anything to deliver or to store. Nothing is written, so an idle endpoint costs one read."""
        webhook, worker = self._webhook, self._worker
        if webhook.replaying:
            return True
        try:
            page = await self._read()
        except CursorTooOld:
            return True
        due = worker.clock() - webhook.moved_at >= _MOVE_MS and page.position != webhook.position
        if page.events or page.more or due:
            return True
        worker.reached[webhook.id] = webhook.position, page.position
        return False

    async def _read(self) -> EventPage:
        webhook = self._webhook
        stored, reached = self._worker.reached.get(webhook.id, ("", ""))
        types = endpoints.event_types(webhook.format, webhook.types)
        access = Access(**dict.fromkeys(webhook.access, True))
        start = reached if stored == webhook.position else webhook.position
        return await self._worker.events.read(start, types, access, PAGE)

    async def _work(self) -> None:
        while self._webhook.replaying:
            await self._replay()
        if self._webhook.key_id and await find_object(self._worker.graph, App, self._webhook.key_id) is None:
            await self._pause(Pause.NO_KEY)
        while self._is_ready() and await self._deliver_page():
            pass

    def _is_ready(self) -> bool:
        return not self._webhook.paused and self._webhook.retry_at <= self._worker.clock()

    async def _replay(self) -> None:
        """Deliver the oldest parked event again. A failure ends the replay."""
        found = await endpoints.oldest_parked(self._worker.graph, self._webhook)
        if found is None:
            await self._save(replaying=False)
            return
        row, event = found

        def drop(batch: Batch) -> None:
            batch.assoc_del(self._webhook.id, PARKED_EVENTS, row.id2, self._worker.new_id(batch.shard))

        if (await self._send(event)).succeeded:
            await self._save(drop)
        else:
            await self._save(replaying=False)

    async def _deliver_page(self) -> bool:
        """Deliver the next events; return whether there are more."""
        try:
            page = await self._read()
        except CursorTooOld:
            await self._pause(Pause.EXPIRED)
            return False
        for event in page.events:
            if event.id not in self._webhook.delivered:
                await self._deliver(event)
            if not self._is_ready():
                return False
        end: Mapping[str, Any] = {} if page.more else _RELEASED
        await self._save(position=page.position, moved_at=self._worker.clock(), delivered=(), **end)
        return page.more

    async def _deliver(self, event: Event) -> None:
        """Deliver an event, or record the failure."""
        name, body = await self._rendered(event)
        if body:
            parked = ParkedEvent(event.id, name, body)
            delivery = await self._send(parked)
            if not delivery.succeeded:
                await self._fail(parked, delivery)
                return
        self._done.append(event.id)
        if body and (self._webhook.attempts or self._webhook.parked_last):
            await self._save(parked_last=False, **NO_FAILURE)
        elif self._worker.clock() - self._saved_at >= _SAVE_MS:
            await self._save()

    async def _rendered(self, event: Event) -> tuple[str, bytes]:
        """Return the type and body of an event in the format of the endpoint. An event without an equivalent has no body."""
        if self._webhook.format != "mastodon":
            return event.type, msgspec.json.encode(event)
        name = mastodon_name(event)
        is_chosen = not self._webhook.types or name in map(str.strip, self._webhook.types.split(","))
        return name, (await self._worker.render(name, event) if name and is_chosen else None) or b""

    async def _send(self, event: ParkedEvent) -> Delivery:
        made = await endpoints.send(
            self._worker.pool, self._webhook, event.event_id, event.type, event.body, self._worker.clock()
        )
        self._made.append(made)
        return made

    async def _fail(self, event: ParkedEvent, delivery: Delivery) -> None:
        webhook, now = self._webhook, self._worker.clock()
        attempts, since = 1, now
        if webhook.failing_id == event.event_id:
            attempts, since = webhook.attempts + 1, webhook.failing_since
        if delivery.status == 410:
            await self._pause(Pause.GONE)
        elif webhook.parked_last:
            await self._pause(Pause.FAILING)
        elif now - since < RETRY_MS:
            retry_at = now + backoff_ms(attempts, random.random())  # noqa: S311
            failure: dict[str, Any] = {
                "failing_id": event.event_id,
                "attempts": attempts,
                "failing_since": since,
                "retry_at": retry_at,
            }
            await self._save(**failure, **_RELEASED)
        elif not await endpoints.may_park(self._worker.graph, webhook):
            await self._pause(Pause.FULL)
        else:
            _log.warning("webhook %d: event %s failed for three days and was parked", webhook.id, event.event_id)
            self._done.append(event.event_id)

            def park(batch: Batch) -> None:
                endpoints.park(batch, webhook, self._worker.new_id(batch.shard), event)

            await self._save(park, parked_last=True, **NO_FAILURE)

    async def _pause(self, reason: Pause) -> None:
        """Pause the endpoint, and send a mail to all admins."""
        graph, new_id = self._worker.graph, self._worker.new_id
        listed = await graph.assoc_range(EVERYBODY, STAFF, Cursor(limit=1_000))
        staff = await objects_of(graph, Member, [assoc.id2 for assoc in listed])
        admins = [member.id for member in staff if member.role is Role.ADMIN][:_MAX_MAILS]

        def mail(batch: Batch) -> None:
            for id_ in admins:
                due = MailDue(
                    kind=MailKind.WEBHOOK_PAUSED, asked=new_id(batch.shard), member_id=id_, place=self._webhook.url
                )
                batch.emit(due)

        _log.warning("webhook %d was paused (%s)", self._webhook.id, reason)
        await self._save(mail, paused=reason, **_RELEASED)

    async def _release(self) -> None:
        """End the lease, so that another process need not wait for it, and store what was delivered."""
        if self._webhook.lease:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_RELEASE_SECONDS):
                    await self._save(**_RELEASED)

    async def _save(self, extra: Callable[[Batch], None] = lambda _: None, **changes: Any) -> None:
        """Commit the progress and the log of deliveries, and take or extend the lease. Raises `_LeaseLost`."""
        graph, id_ = self._worker.graph, self._webhook.id

        async def attempt() -> Webhook:
            now = self._worker.clock()
            try:
                before = await get_object(graph, Webhook, id_)
            except NotFound as error:
                raise _LeaseLost from error
            if before.lease != self._lease and (self._saved_at or not _is_due(before, now)):
                raise _LeaseLost
            batch = Batch(shard_of(id_))
            values = {
                "lease": self._lease,
                "leased_until": now + LEASE_MS,
                "delivered": (*before.delivered, *self._done),
                **changes,
            }
            after = replace(before, **values, version=before.version + 1)
            batch.obj_set(after)
            if self._made:
                log = await get_object(graph, WebhookLog, before.log_id)
                batch.obj_set(replace(endpoints.logged(log, self._made), version=log.version + 1))
            extra(batch)
            await graph.commit(batch)
            return after

        self._webhook = await retry_on_conflict(attempt)
        self._made.clear()
        self._done.clear()
        self._saved_at = self._worker.clock()


def mastodon_name(event: Event) -> str:
    """Return the name of an event in Mastodon's webhooks; empty if it has none."""
    noun, _, change = event.type.partition(".")
    if isinstance(event.data, AuditData):
        return "account.approved" if event.data.verb is AuditVerb.SIGN_UP_APPROVED else ""
    names = {"member": "account", "post": "status", "report": "report"}
    return f"{names[noun]}.{change}" if noun in names and change != "deleted" else ""
