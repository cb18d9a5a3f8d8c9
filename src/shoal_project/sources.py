"""Networks whose events are read: a server over HTTP, or the stores of the settings."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

import httpcore
import msgspec

from shoal.admin.events import EventLines, ReadEvents, ReadState, StateLines
from shoal.app.paths import base_url, store_files
from shoal.cli.stores import Performer, existing, is_shared, performing
from shoal.core.errors import Gone, InvalidInput, NotAllowed, NotFound, Unauthenticated, Unavailable
from shoal.queries.events import END
from shoal.settings import Settings
from shoal_project.changes import Event
from shoal_project.projection import EventsPage

_PATH = "/api/shoal/v1/events"
_LIMIT = 200
_TYPES = "member,post,share,follow,like,reaction"
_PRIVATE_TYPES = f"{_TYPES},media"
_SECONDS = 60.0
MAX_BYTES = 64 << 20
"""Maximum bytes of a response."""
_ERRORS = {401: Unauthenticated, 403: NotAllowed, 404: NotFound, 410: Gone, 422: InvalidInput}
_TEMPORARY = {408, 429, 500, 502, 503, 504}


class ServerSource:
    """A server, by a key with the scope `server:events`, and for private data `server:private`."""

    def __init__(self, pool: httpcore.AsyncConnectionPool, url: str, key: str, *, private: bool) -> None:
        self._pool = pool
        self._url = url.rstrip("/")
        self._headers = [("Authorization", f"Bearer {key}"), ("Accept", "application/json")]
        self._types = _PRIVATE_TYPES if private else _TYPES

    async def end(self) -> str:
        # For a key that lacks the scope for private data, the types are refused.
        cursor: str = (await self._get(_PATH, types=self._types))["cursor"]
        return cursor

    async def events(self, after: str, wait: int) -> EventsPage:
        page = await self._get(_PATH, after=after, types=self._types, limit=_LIMIT, wait=wait)
        return EventsPage(page["events"], page["cursor"], page["more"])

    async def state(self, after: str, member_id: int) -> tuple[Sequence[Event], str | None]:
        chosen = {"member": member_id} if member_id else {}
        page = await self._get(f"{_PATH}/state", after=after, limit=_LIMIT, **chosen)
        return page["events"], page["next"]

    async def _get(self, path: str, **query: Any) -> Any:
        url = f"{self._url}{path}?{urlencode(query)}"
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), _SECONDS)
        try:
            async with self._pool.stream("GET", url, headers=self._headers, extensions={"timeout": timeouts}) as answer:
                body = bytearray()
                async for part in answer.aiter_stream():
                    body += part
                    if len(body) > MAX_BYTES:
                        raise Unavailable(f"{self._url} sent more than {MAX_BYTES >> 20} MiB")
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            raise Unavailable(f"{self._url} does not answer") from error
        if answer.status == 200:
            return msgspec.json.decode(bytes(body))
        if answer.status in _TEMPORARY:
            raise Unavailable(f"{self._url} answers with status {answer.status}")
        raise _ERRORS.get(answer.status, InvalidInput)(f"{self._url}: {_error_of(bytes(body), answer.status)}")


def _error_of(body: bytes, status: int) -> str:
    try:
        return str(msgspec.json.decode(body)["error"])[:500]
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"status {status}"


class StoreSource:
    """The network of the settings, through the server that has its store open, if there is one."""

    def __init__(self, run: Performer, settings: Settings, *, private: bool) -> None:
        self._run = run
        self._settings = settings
        self._source = base_url(settings)
        self._access: Literal["private", "public"] = "private" if private else "public"
        self._types = _PRIVATE_TYPES if private else _TYPES

    @property
    def is_complete(self) -> bool:
        """Whether no other process can add events."""
        return self._run.alone and not is_shared(self._settings)

    async def end(self) -> str:
        return (await self.events(END, 0)).position

    async def events(self, after: str, wait: int) -> EventsPage:
        events: list[Event] = []
        while True:
            page: EventLines = await self._run(ReadEvents(self._source, after, self._types, access=self._access))
            events += map(msgspec.json.decode, page.lines)
            after = page.position
            if not page.more or len(events) >= _LIMIT:
                break
        if not (events or page.more or self.is_complete) and wait:
            page = await self._run(ReadEvents(self._source, after, self._types, wait, access=self._access))
            events += map(msgspec.json.decode, page.lines)
        return EventsPage(events, page.position, page.more)

    async def state(self, after: str, member_id: int) -> tuple[Sequence[Event], str | None]:
        events: list[Event] = []
        following: str | None = after
        while following is not None and len(events) < _LIMIT:
            page: StateLines = await self._run(ReadState(self._source, following, self._access, member_id))
            events += map(msgspec.json.decode, page.lines)
            following = page.next
        return events, following


def refuse_store(settings: Settings, to: str, option: str) -> None:
    """Raise `InvalidInput` for a target that is a store of the network, given as an option or argument of this name."""
    if Path(to.removeprefix("sqlite:///")).absolute() in (path.absolute() for path in store_files(settings)):
        raise InvalidInput(f"{option}: {to} is the store of the network: use another file")


@asynccontextmanager
async def opened_server(url: str, key: str, *, private: bool) -> AsyncIterator[ServerSource]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"--server: {url!r} is not a URL such as https://social.example")
    if not key:
        raise InvalidInput("--server: needs a server key, in --key or the environment variable SHOAL_PROJECT_KEY")
    async with httpcore.AsyncConnectionPool(ssl.create_default_context(), max_connections=1) as pool:
        yield ServerSource(pool, url, key, private=private)


@asynccontextmanager
async def opened_store(settings: Settings, *, private: bool) -> AsyncIterator[StoreSource]:
    async with performing(existing(settings)) as run:
        yield StoreSource(run, settings, private=private)
