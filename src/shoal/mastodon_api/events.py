"""The event log for server keys: pages with long polling, an event stream, and the JSON Schemas of events.

Mastodon has no equivalent. What a key receives depends on its scopes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, inspect

from shoal.core.errors import NotFound, ShoalError
from shoal.graph.cache.coherence import another_request
from shoal.graph.contract import MAX_CURSOR
from shoal.http.authentication import caller_of, granted
from shoal.http.event_streams import LongPoll, Pause, PolledStream
from shoal.http.openapi import taken
from shoal.http.params import CursorId
from shoal.http.responses import Reply, encode
from shoal.http.routes import Body, Caller
from shoal.mastodon_api.context import Context, Router
from shoal.queries.events import END, MAX_EVENTS, SCHEMAS, TYPES, Access, CloudEvent, EventPage
from shoal.streaming.subscriptions import PRESENCE

router = Router(auth="server", scope="server:events", limit_class="server", refuses=(410,))
schemas_router = Router(auth="public")

MAX_WAIT: Final = 30
"""Maximum seconds of a long poll."""
_MAX_TYPES = 1_000
_STREAM_EVENTS = 50
"""Maximum events that a stream reads at once. Only the last of them has an id."""

_Cursor = Annotated[str, Meta(max_length=MAX_CURSOR)]


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    after: _Cursor = END
    """The `cursor` of the previous page; `start` for the oldest stored event, and `end` for now."""
    types: Annotated[str, Meta(max_length=_MAX_TYPES)] = ""
    """Types of events, separated by commas, such as `post.created,member`; empty for all that the key may receive."""


class EventsQuery(EventFilter, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=MAX_EVENTS)] = 100
    """Maximum events of the page."""
    wait: Annotated[int, Meta(ge=0, le=MAX_WAIT)] = 0
    """Seconds to wait for an event if there is none."""


class EventEntity(CloudEvent, frozen=True, kw_only=True):
    """A change, as an event."""

    data: dict[str, Any]
    """The current state of the subject; its `id` if it was deleted. Its JSON Schema is at the URL in `dataschema`."""


class EventsEntity(msgspec.Struct, kw_only=True):
    """Events in the order of delivery."""

    events: list[EventEntity]
    cursor: str
    """Where to continue. Store it when the events are processed."""
    more: bool
    """Whether further events are stored already. A page may be empty although there are more, if no event is of a chosen type."""


@router.get("/api/shoal/v1/events", answer=EventsEntity)
async def list_events(context: Context, params: EventsQuery) -> object:
    """List events after a cursor. Without a cursor, return the one of the end, from which to continue.

    Status 410 means that events after the cursor were deleted, or that the store was restored: get a new cursor without `after`,
    read the current state, and continue from that cursor.
    """
    app, access = context.app, access_of(context.caller)
    page = await app.events.read(params.after or END, params.types, access, params.limit)
    if page.events or page.more or not params.wait:
        return _body(page)
    stack = AsyncExitStack()
    connection = await stack.enter_async_context(app.streams.listening(context.caller, PRESENCE))
    remaining = float(params.wait)

    async def pause() -> bool:
        nonlocal remaining
        seconds = min(remaining, app.streams.pace.poll)
        remaining -= seconds
        return seconds > 0 and await connection.lasts(seconds)

    async def awaited() -> bytes:
        found, check = page, _check_of(context)
        # After an error, such as an outage or the deletion of the key, the next request returns the reason.
        with suppress(ShoalError):
            async with aclosing(app.events.pages(page.position, params.types, access, params.limit, pause)) as pages:
                async for latest in pages:
                    if latest.events:
                        with another_request():
                            await check()
                    found = latest
                    if found.events or found.more:
                        break
        return encode(_body(found))

    return LongPoll(connection, stack, awaited)


class StateQuery(msgspec.Struct, frozen=True, kw_only=True):
    after: Annotated[str, Meta(max_length=64)] = ""
    """The `next` of the previous page."""
    limit: Annotated[int, Meta(ge=1, le=MAX_EVENTS)] = 100
    """Maximum objects of the page. It has about as many follows, likes and reactions each."""
    member: CursorId | None = None
    """Only this member, with their follows, followers, posts and shares."""


class StateEntity(msgspec.Struct, kw_only=True):
    """The current state, as events of creations."""

    events: list[EventEntity]
    next: str | None
    """Where to continue; null at the end. A page may have no events although there is a next one."""


@router.get("/api/shoal/v1/events/state", answer=StateEntity)
async def show_state(context: Context, params: StateQuery) -> object:
    """List the current state of the network as events, to begin a copy or to make it again.

    Get a cursor of the events first, and continue from that cursor afterwards.
    """
    access = access_of(context.caller)
    page = await context.app.events.state(params.after, access, params.limit, params.member or 0)
    return {"events": page.events, "next": page.next}


def _check_of(context: Context) -> Callable[[], Awaitable[None]]:
    async def check() -> None:
        context.app.ip_guard.check(context.request.scope)
        await caller_of(context.app.uses, context.request)

    return check


def _body(page: EventPage) -> object:
    return {"events": page.events, "cursor": page.position, "more": page.more}


@router.get("/api/shoal/v1/events/stream", answer=Body("text/event-stream"))
async def stream_events(context: Context, params: EventFilter) -> object:
    """Stream events after a cursor, or from now on. A client that reconnects sends the last `id` as `Last-Event-ID`.

    The `event` of each message is its type, and the `data` the whole event. The `id` is a cursor; not every event has one.
    """
    app, access = context.app, access_of(context.caller)
    after = context.request.headers.get("last-event-id") or params.after or END
    # Errors of the parameters are reported before the stream begins.
    position = await app.events.position(after, params.types, access)
    stack = AsyncExitStack()
    connection = await stack.enter_async_context(app.streams.listening(context.caller, PRESENCE))

    async def pieces(pause: Pause) -> AsyncGenerator[bytes]:
        # A client whose connection ends before the first event continues from here.
        yield _id(position) + b"\n"
        async with aclosing(app.events.pages(position, params.types, access, _STREAM_EVENTS, pause)) as pages:
            try:
                async for page in pages:
                    for message in _messages(page):
                        yield message
            except ShoalError:
                # The client reconnects, and the response says why.
                return

    return PolledStream(app.streams, connection, stack, pieces, _check_of(context))


def _messages(page: EventPage) -> Iterator[bytes]:
    """Encode a page as messages. Only the last one has an id, so a client that reconnects may receive some events again."""
    last = len(page.events) - 1
    for number, event in enumerate(page.events):
        id_ = _id(page.position) if number == last else b""
        yield b"event: %b\ndata: %b\n%b\n" % (event.type.encode(), encode(event), id_)
    if not page.events:
        # Without an event, the message changes the id of the last event, and is not dispatched.
        yield _id(page.position) + b"\n" if page.position != page.start else b""


def _id(position: str) -> bytes:
    return b"id: %b\n" % position.encode()


def access_of(caller: Caller) -> Access:
    """Return what a server key may see."""
    return Access(
        private=granted(caller.scopes, "server:private"),
        accounts=granted(caller.scopes, "admin:read:accounts"),
        reports=granted(caller.scopes, "admin:read:reports"),
        audit=granted(caller.scopes, "admin:read"),
    )


class TypePath(msgspec.Struct, frozen=True):
    type: Annotated[str, Meta(max_length=100)]


@schemas_router.get(f"{SCHEMAS}/{{type}}", answer=dict)
async def show_schema(context: Context, params: TypePath) -> object:
    """Show the JSON Schema (2020-12) of the `data` of a type of events, such as `post.created`."""
    if params.type not in TYPES:
        raise NotFound("Record not found")
    body = schema_of(params.type, f"{context.app.at.root}{SCHEMAS}/{params.type}")
    return Reply(body, headers=(("Cache-Control", "public, max-age=300"),))


def schema_of(name: str, url: str) -> dict[str, Any]:
    """Return the JSON Schema of the data of a type of events."""
    shape = taken(inspect.type_info(TYPES[name].data))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": url, "title": name, **shape}
