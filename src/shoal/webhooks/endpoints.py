"""Commands on the endpoints of webhooks: create, list, update, pause, resume, rotate, replay, test and delete.

An endpoint, its delivery log and its list entry are on one shard, so each change is one commit. Secrets are stored as they are,
because each request is signed with them; they are shown only once.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

import httpcore
import msgspec
from msgspec.structs import replace

from shoal.commands.audit import note
from shoal.commands.context import Writes, add_node
from shoal.core import webhooks
from shoal.core.audit import AuditTarget, AuditVerb, TargetKind
from shoal.core.errors import InvalidInput, NotAllowed, NotFound, ShoalError, TooMany, Unavailable, Unfit
from shoal.core.ids import named, now_ms, shard_of
from shoal.core.webhooks import (
    MASTODON_TYPES,
    MAX_DELIVERIES,
    MAX_EXCERPT,
    MAX_PARKED,
    MAX_PER_KEY,
    MAX_WEBHOOKS,
    USUAL_GRACE_SECONDS,
    Delivery,
    Pause,
    Webhook,
    WebhookFormat,
    WebhookLog,
    WebhookSecret,
)
from shoal.graph.access import count_of, get_object, objects_of
from shoal.graph.changes import change_object, retry_on_conflict
from shoal.graph.contract import Assoc, Batch, Cursor, CursorTooOld, LogEntry, Reader
from shoal.graph.event_log import LogPage
from shoal.graph.schema import EVERYBODY, PARKED_EVENTS, WEBHOOKS
from shoal.outgoing import Network, RequestFailed, open_pool, request
from shoal.queries.event_data import moment
from shoal.queries.event_filter import checked_filter, selector
from shoal.queries.events import END, FULL, MAX_EVENTS, PUBLIC, Access, EventReader

REQUEST_SECONDS = 5.0
"""Timeout of a request to an endpoint."""
TEST_TYPE = "webhook.test"

_SHARD = shard_of(EVERYBODY)
_DROPPED_AT_ONCE = 20
_TESTS_AT_ONCE = 4
_LAG_READS = 5
_tested: set[int] = set()
"""The endpoints that this process is testing."""
_encoder = msgspec.msgpack.Encoder()
_entry_decoder = msgspec.msgpack.Decoder(LogEntry)


class NewSecret(NamedTuple):
    """An endpoint with its new secret, which cannot be read again."""

    id: int
    secret: str


class Lag(NamedTuple):
    """The events that an endpoint has not accepted yet."""

    events: int
    """The number of waiting events that one read of the log finds, at most `MAX_EVENTS`."""
    seconds: float
    """Age of the oldest; 0 if there are none."""


class WebhookView(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook, without its secret."""

    id: int
    url: str
    types: str
    """Types of events, separated by commas; empty for all."""
    filter: str
    """Conditions on the data of events, separated by commas; empty for none."""
    private: bool
    """Whether private data is sent too."""
    format: WebhookFormat
    paused: Pause
    """Why no events are sent; empty if they are sent."""
    failed_attempts: int
    """Failed deliveries of the next event."""
    retry_at: int
    """When that event is sent again, in Unix milliseconds; 0 if the last delivery succeeded."""
    parked: int
    """Number of events that failed for three days, and can be replayed."""
    lag: Lag | None
    """The events that wait; None if that is not known, because events after the position are missing in the log."""


def access_for(format_: WebhookFormat, *, private: bool, most: Access = FULL) -> Access:
    """Return what an endpoint receives, of the `most` that its creator may see.

    Raises `NotAllowed` if the creator may not see that, and `InvalidInput` for Mastodon's format without private data: it shows
    accounts, reports and posts as moderators see them.
    """
    if format_ == "mastodon" and not private:
        raise InvalidInput("private: Mastodon's format contains private data: allow private data", field="private")
    if private and (not most.private or (format_ == "mastodon" and most != FULL)):
        raise NotAllowed("private: this needs server:private, and Mastodon's format also needs admin:read")
    return most if private else PUBLIC


def event_types(format_: WebhookFormat, types: str) -> str:
    """Return the types of events that an endpoint needs. Raises `InvalidInput` for an unknown type of Mastodon's webhooks."""
    if format_ != "mastodon":
        return types
    chosen = [part.strip() for part in types.split(",") if part.strip()] or list(MASTODON_TYPES)
    if unknown := [name for name in chosen if name not in MASTODON_TYPES]:
        raise InvalidInput(f"types: {unknown[0][:80]!r} is not one of {', '.join(MASTODON_TYPES)}", field="types")
    return ",".join(dict.fromkeys(MASTODON_TYPES[name] for name in chosen))


def access_of(webhook: Webhook) -> Access:
    return Access(**dict.fromkeys(webhook.access, True))


def filter_of(format_: WebhookFormat, types: str, filter_: str, access: Access, key_id: int = 0) -> str:
    """Check the types and the filter of an endpoint, and return the filter to store. Raises like `create`."""
    try:
        return checked_filter(filter_, event_types(format_, types), access)
    except NotAllowed as error:
        if key_id:
            raise
        text = "types: reports and moderation actions are private data: allow private data"
        raise InvalidInput(text, field="types") from error


async def create(
    writes: Writes,
    events: EventReader,
    url: str,
    types: str = "",
    access: Access = PUBLIC,
    format_: WebhookFormat = "standard",
    key_id: int = 0,
    filter_: str = "",
) -> NewSecret:
    """Create an endpoint that receives the events from now on.

    Raises:
        InvalidInput: A parameter is invalid, or the network keeps no event log.
        NotAllowed: One of the types needs more access than the server key has.
        Unfit: There are too many endpoints.
    """
    webhooks.check_url(url)
    filter_ = filter_of(format_, types, filter_, access, key_id)
    position = await events.position(END)
    # Concurrent additions may exceed the limits slightly. The additional endpoints share the connections of the worker.
    present = await all_of(writes.graph)
    if len(present) >= MAX_WEBHOOKS:
        raise Unfit(f"there are {MAX_WEBHOOKS} webhooks already, which is the maximum")
    if key_id and sum(webhook.key_id == key_id for webhook in present) >= MAX_PER_KEY:
        raise Unfit(f"this server key has {MAX_PER_KEY} webhooks already, which is the maximum")
    secret = webhooks.new_secret()

    def build(id_: int) -> tuple[Webhook, Batch]:
        log_id = writes.new_id(_SHARD)
        webhook = Webhook(
            id=id_,
            url=url,
            log_id=log_id,
            position=position,
            types=types,
            filter=filter_,
            access=tuple(name for name, part in access._asdict().items() if part),
            format=format_,
            secrets=(WebhookSecret(secret),),
            key_id=key_id,
            moved_at=writes.new_id.now(),
        )
        batch = Batch(_SHARD)
        batch.fresh.add(log_id)
        batch.obj_add(webhook)
        batch.obj_add(WebhookLog(id=log_id))
        batch.assoc_add(EVERYBODY, WEBHOOKS, id_, id_)
        more = {"format": format_, "private": "yes" if access.private else "no"}
        note(writes, batch, AuditVerb.WEBHOOK_CREATED, _target(webhook), **_selection_details(webhook), **more)
        return webhook, batch

    return NewSecret((await add_node(writes, _SHARD, build)).id, secret)


async def update(
    writes: Writes,
    webhook: Webhook,
    *,
    url: str | None = None,
    types: str | None = None,
    filter_: str | None = None,
    key_id: int = 0,
) -> None:
    """Change the URL, the types or the filter of an endpoint, for an operator or the server key `key_id`; None keeps a value.

    Secrets, format and access stay. Events that are not delivered yet follow the new values, and a new URL is tried at once.

    Raises:
        InvalidInput: A value is invalid, or the filter has a field that one of the types lacks.
        NotAllowed: One of the types needs more access than the endpoint has.
        Unfit: The server key of the endpoint was deleted.
    """
    _check_key(webhook)
    if url is not None:
        webhooks.check_url(url)

    def updated(before: Webhook) -> Webhook:
        chosen = before.types if types is None else types
        conditions = before.filter if filter_ is None else filter_
        checked = filter_of(before.format, chosen, conditions, access_of(before), key_id)
        after = replace(before, types=chosen, filter=checked)
        if url is None or url == before.url:
            return after
        return replace(after, url=url, parked_last=False, **webhooks.NO_FAILURE)

    def extra(batch: Batch, before: Webhook, after: Webhook) -> None:
        moved = {"url": f"{webhooks.host_of(before.url)} -> {webhooks.host_of(after.url)}"}
        details = {**(moved if before.url != after.url else {}), **_selection_details(after)}
        note(writes, batch, AuditVerb.WEBHOOK_UPDATED, _target(after), **details)

    await change_object(writes.graph, lambda: get_object(writes.graph, Webhook, webhook.id), updated, extra)


def _selection_details(webhook: Webhook) -> dict[str, str]:
    """Return the types and the filter of an endpoint for the audit log."""
    return {"types": webhook.types or "all", **({"filter": webhook.filter} if webhook.filter else {})}


async def lag(events: EventReader, webhook: Webhook, now: int, start: str = "") -> Lag:
    """Return how far an endpoint is behind at a time (Unix ms), from its position or a later one.

    Raises like `EventReader.read`, and `Unavailable` if the next event is too far behind the position.
    """
    access, types = access_of(webhook), event_types(webhook.format, webhook.types)
    after: str | LogPage = start or webhook.position
    for _ in range(_LAG_READS):
        page = await events.read(after, types, access, MAX_EVENTS, selector(webhook.filter))
        waiting = [event for event in page.events if event.id not in webhook.delivered]
        if waiting:
            oldest = 1_000 * datetime.fromisoformat(waiting[0].time).timestamp()
            return Lag(len(waiting), max(0.0, (now - oldest) / 1_000))
        if not page.more:
            return Lag(0, 0.0)
        after = page.log
    raise Unavailable("the next event of the webhook is too far behind its position")


async def _ids(graph: Reader) -> list[int]:
    return [assoc.id2 for assoc in await graph.assoc_range(EVERYBODY, WEBHOOKS, Cursor(limit=2 * MAX_WEBHOOKS))]


async def all_of(graph: Reader) -> list[Webhook]:
    """Return all endpoints, newest first."""
    return await objects_of(graph, Webhook, await _ids(graph))


async def views(graph: Reader, events: EventReader | None = None, key_id: int = 0) -> list[WebhookView]:
    """Return the endpoints that a server key created, or all if `key_id` is 0, newest first. Without `events`, no lag is read."""
    return await _views(graph, events, [hook for hook in await all_of(graph) if key_id in (0, hook.key_id)])


async def view(graph: Reader, events: EventReader | None, id_: int, key_id: int = 0) -> WebhookView:
    """Return one of the endpoints that `views` returns. Raises `NotFound` for any other."""
    return (await _views(graph, events, [await find(graph, id_, key_id)]))[0]


async def _lag_if_known(events: EventReader | None, webhook: Webhook) -> Lag | None:
    try:
        return await lag(events, webhook, now_ms()) if events else None
    except ShoalError:
        return None


async def _views(graph: Reader, events: EventReader | None, found: Sequence[Webhook]) -> list[WebhookView]:
    ids = [webhook.id for webhook in found]
    counts = (await graph.assoc_count(ids, (PARKED_EVENTS,)))[PARKED_EVENTS] if ids else {}
    lags = await asyncio.gather(*(_lag_if_known(events, webhook) for webhook in found))
    return [
        WebhookView(
            id=webhook.id,
            url=webhook.url,
            types=webhook.types,
            filter=webhook.filter,
            private="private" in webhook.access,
            format=webhook.format,
            paused=webhook.paused,
            failed_attempts=webhook.attempts,
            retry_at=webhook.retry_at,
            parked=counts.get(webhook.id, 0),
            lag=behind,
        )
        for webhook, behind in zip(found, lags, strict=True)
    ]


async def find(graph: Reader, id_: int, key_id: int = 0) -> Webhook:
    """Return an endpoint. Raises `NotFound` if it is unknown, or if the server key `key_id` (0: any) did not create it."""
    webhook = await get_object(graph, Webhook, id_)
    if key_id not in (0, webhook.key_id):
        raise NotFound("Record not found")
    return webhook


async def deliveries(graph: Reader, webhook: Webhook) -> Sequence[Delivery]:
    """Return the newest deliveries to an endpoint, newest first."""
    return (await get_object(graph, WebhookLog, webhook.log_id)).deliveries


async def pause(writes: Writes, webhook: Webhook, key_id: int = 0) -> None:
    """Pause deliveries, for an operator or the server key `key_id`. A key does not change an earlier pause. A replay ends."""

    def paused(before: Webhook) -> Webhook:
        if before.paused is Pause.NO_KEY or (before.paused and key_id):
            return before
        return replace(before, paused=Pause.KEY if key_id else Pause.MANUAL, replaying=False)

    await _change(writes, webhook, AuditVerb.WEBHOOK_PAUSED, paused)


async def resume(writes: Writes, events: EventReader, webhook: Webhook, key_id: int = 0) -> None:
    """Continue deliveries, for an operator or the server key `key_id`. An endpoint that is not paused is not changed.

    If events after its position are lost, it continues with the events from now on. Raises `Unfit` if its server key was deleted,
    and `NotAllowed` for a key if an operator paused it.
    """
    _check_key(webhook)
    if key_id and webhook.paused is Pause.MANUAL:
        raise NotAllowed("an operator paused this webhook")
    end = ""
    try:
        await events.position(webhook.position)
    except CursorTooOld:
        end = await events.position(END)

    def resumed(before: Webhook) -> Webhook:
        if not before.paused or before.paused is not webhook.paused:
            return before
        return replace(before.resumed(), position=end, delivered=()) if end else before.resumed()

    await _change(writes, webhook, AuditVerb.WEBHOOK_RESUMED, resumed)


async def rotate(writes: Writes, webhook: Webhook, grace_seconds: int = USUAL_GRACE_SECONDS) -> NewSecret:
    """Create a new secret. For `grace_seconds`, requests are signed with the current secret too; 0 ends all former ones.

    Raises `InvalidInput` for an invalid time, and `Unfit` if too many secrets are valid.
    """
    secret, now = webhooks.new_secret(), writes.new_id.now()

    def rotated(before: Webhook) -> Webhook:
        return replace(before, secrets=webhooks.rotated(before.secrets, secret, now, grace_seconds))

    await _change(writes, webhook, AuditVerb.WEBHOOK_ROTATED, rotated)
    return NewSecret(webhook.id, secret)


async def replay(writes: Writes, webhook: Webhook) -> int:
    """Have the worker deliver the parked events again, oldest first, until one fails. Return the number of parked events.

    Each is made again with the current state of its object; one that may not be seen any more is dropped. Raises `Unfit` if the
    server key of the endpoint was deleted.
    """
    _check_key(webhook)
    number = await count_of(writes.graph, webhook.id, PARKED_EVENTS)
    if number:
        await _change(writes, webhook, None, lambda before: replace(before, replaying=True))
    return number


async def delete(writes: Writes, webhook: Webhook) -> None:
    """Delete an endpoint with its delivery log and its parked events."""

    async def attempt() -> None:
        found = await get_object(writes.graph, Webhook, webhook.id)
        batch = Batch(_SHARD)
        # The version makes a commit of the worker conflict, which could park another event.
        batch.obj_del(found.id, found.version)
        batch.obj_del(found.log_id)
        batch.assoc_del(EVERYBODY, WEBHOOKS, found.id, writes.new_id(_SHARD))
        note(writes, batch, AuditVerb.WEBHOOK_DELETED, _target(found))
        await writes.graph.commit(batch)

    await _drop_parked(writes, webhook)
    await retry_on_conflict(attempt)
    # The worker may have parked one more event before the endpoint was deleted.
    await _drop_parked(writes, webhook)


async def _drop_parked(writes: Writes, webhook: Webhook) -> None:
    while page := await writes.graph.assoc_range(webhook.id, PARKED_EVENTS, Cursor(limit=_DROPPED_AT_ONCE)):
        batch = Batch(_SHARD)
        for assoc in page:
            batch.assoc_del(webhook.id, PARKED_EVENTS, assoc.id2, writes.new_id(_SHARD))
        await writes.graph.commit(batch)


async def _change(
    writes: Writes, webhook: Webhook, verb: AuditVerb | None, change: Callable[[Webhook], Webhook]
) -> None:
    def extra(batch: Batch, _before: Webhook, after: Webhook) -> None:
        if verb is not None:
            note(writes, batch, verb, _target(after))

    await change_object(writes.graph, lambda: get_object(writes.graph, Webhook, webhook.id), change, extra)


def _check_key(webhook: Webhook) -> None:
    if webhook.paused is Pause.NO_KEY:
        raise Unfit("the server key of this webhook was deleted: delete the webhook")


def _target(webhook: Webhook) -> AuditTarget:
    return AuditTarget(TargetKind.WEBHOOK, webhook.id, webhooks.host_of(webhook.url))


async def test(writes: Writes, allowed: Sequence[Network], source: str, webhook: Webhook) -> Delivery:
    """Send an event of the type `webhook.test` to an endpoint, even if it is paused. Return and log the result.

    Raises `TooMany` if this process is already testing this endpoint, or several others.
    """
    if webhook.id in _tested or len(_tested) >= _TESTS_AT_ONCE:
        raise TooMany("a test is running; try again later", retry_after=REQUEST_SECONDS)
    now = now_ms()
    event_id = f"test-{secrets.token_hex(8)}"
    if webhook.format == "mastodon":
        content: dict[str, object] = {"event": TEST_TYPE, "created_at": moment(now), "object": {}}
    else:
        content = {
            "specversion": "1.0",
            "id": event_id,
            "source": source,
            "type": TEST_TYPE,
            "subject": f"webhook/{webhook.id}",
            "time": moment(now),
            "datacontenttype": "application/json",
            "data": {},
        }
    _tested.add(webhook.id)
    try:
        # Reading the certificates of the system takes tens of milliseconds.
        pool = await asyncio.to_thread(open_pool, allowed)
        try:
            delivery = await send(pool, webhook, event_id, TEST_TYPE, msgspec.json.encode(content), now)
        finally:
            await pool.aclose()
    finally:
        _tested.discard(webhook.id)
    await change_object(
        writes.graph,
        lambda: get_object(writes.graph, WebhookLog, webhook.log_id),
        lambda log: logged(log, (delivery,)),
    )
    return delivery


def logged(log: WebhookLog, made: Sequence[Delivery]) -> WebhookLog:
    """Return a log with further deliveries, which are given oldest first."""
    return replace(log, deliveries=(*reversed(made), *log.deliveries)[:MAX_DELIVERIES])


async def send(
    pool: httpcore.AsyncConnectionPool, webhook: Webhook, event_id: str, type_: str, body: bytes, now: int
) -> Delivery:
    """Send one request to an endpoint."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Shoal",
        **webhooks.signed_headers(webhook, event_id, now, body),
    }
    began = time.monotonic()
    try:
        response = await request(
            pool, "POST", webhook.url, seconds=REQUEST_SECONDS, headers=headers, content=body, truncate=True
        )
        status, text = response.status, response.body[: 4 * MAX_EXCERPT].decode(errors="replace")
    except RequestFailed as error:
        status, text = 0, str(error)
    excerpt = "".join(sign if sign.isprintable() else " " for sign in text)[:MAX_EXCERPT].strip()
    return Delivery(now, event_id, type_, status, round(1_000 * (time.monotonic() - began)), excerpt)


async def oldest_parked(graph: Reader, webhook: Webhook) -> tuple[Assoc, LogEntry] | None:
    rows = await graph.assoc_range(webhook.id, PARKED_EVENTS, Cursor(limit=1, oldest_first=True))
    return (rows[0], _entry_decoder.decode(rows[0].data)) if rows else None


async def may_park(graph: Reader, webhook: Webhook) -> bool:
    return await count_of(graph, webhook.id, PARKED_EVENTS) < MAX_PARKED


def park(batch: Batch, webhook: Webhook, time_id: int, entry: LogEntry) -> None:
    """Add a parked event to the commit that continues with the next one. Events that were parked earlier are replayed earlier.

    Only its entry in the event log is stored, so that a replay shows what may be seen then.
    """
    batch.assoc_add(webhook.id, PARKED_EVENTS, named("parked_event", entry.id), time_id, _encoder.encode(entry))
