"""A complete Shoal in memory, and ways to send it requests: in this process, or over HTTP to a server in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import io
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import httpx
import obstore
import pytest
from PIL import Image

from shoal import settings as configuration
from shoal.admin.archives.storage import ArchiveStorage
from shoal.app.network import Network, open_network
from shoal.app.paths import archives_folder
from shoal.app.shared import HostProcess
from shoal.commands import members, moderation, oauth
from shoal.commands.context import Writes
from shoal.core.audit import AuditVerb
from shoal.core.ids import IdMaker
from shoal.core.model import Member, Role
from shoal.core.publishing import Check
from shoal.graph.contract import AssocRow, Graph, RememberingReader
from shoal.graph.schema import AUDITED, AnyNode
from shoal.http.connections import USUAL as USUAL_PATIENCE
from shoal.http.connections import Patience
from shoal.http.event_streams import USUAL, Pace
from shoal.http.rate_limits import MemoryLimiter, rules
from shoal.queries.context import ExpiringCache
from shoal.server import AppParts, build, listen, serve
from shoal.settings import Settings
from shoal.tagcloud.reader import TagCloud
from tests.audit.log_reader import entries
from tests.stores import FIRST

T = TypeVar("T")

_PATIENCE_SECONDS = 600.0
"""Maximum wait for consequences, which include the conversion of videos."""
BASE = "http://shoal.test"
SCOPES = ("read", "write", "follow", "push")
STAFF_SCOPES = ("read", "write", "admin:read", "admin:write")
_READS = ("obj_get", "key_get", "assoc_get", "assoc_range", "assoc_ranges", "assoc_count")


def picture(width: int = 32, height: int = 20, color: str = "teal") -> bytes:
    """Return a PNG."""
    made = io.BytesIO()
    Image.new("RGB", (width, height), color).save(made, "PNG")
    return made.getvalue()


class Someone(NamedTuple):
    """A member with a token, and the app that the token was issued to."""

    member: Member
    token: str
    app_id: int

    @property
    def id(self) -> str:
        """Return the id as the API writes it."""
        return str(self.member.id)


class Counting:
    """A graph that records the calls of its reading methods."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.reads: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._graph, name)
        if name in _READS:
            self.reads.append(name)
        return method


class State(NamedTuple):
    """Everything that a network stores, except audit entries of failed log-ins: a refused log-in leaves one."""

    objects: tuple[AnyNode, ...]
    assocs: tuple[AssocRow, ...]
    files: tuple[str, ...]


def steady_limiter(settings: Settings) -> MemoryLimiter:
    """Return the usual rate limiter with a frozen clock, so that no period ends during a test."""
    now = time.time()
    return MemoryLimiter(rules(settings), clock=lambda: now)


class NetworkFixture:
    """A network and its front end, on an event loop that only runs during calls."""

    def __init__(self, network: Network, runner: asyncio.Runner) -> None:
        self._runner = runner
        self.network = network
        self.graph = Counting(network.writes.graph)
        graph = cast("Graph", self.graph)
        self.writes: Writes = replace(network.writes, graph=graph)
        self.app_parts = AppParts(
            network.settings,
            network.store,
            self.writes,
            replace(network.reads, graph=cast("RememberingReader", self.graph)),
            network.media,
            network.hub,
            steady_limiter(network.settings),
            BASE,
            engines=network.engines,
            server_key=network.server_key,
            archives=ArchiveStorage(archives_folder(network.settings), network.settings.max_archive_bytes),
        )
        self.app = build(self.app_parts)
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=BASE)

    def show(self, tags: TagCloud) -> None:
        """Replace the tag cloud of the front end."""
        self.app_parts = replace(
            self.app_parts, reads=replace(self.app_parts.reads, tags=tags, related=ExpiringCache())
        )
        self.app = build(self.app_parts)
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=BASE)

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result."""
        return self._runner.run(what)

    def ask(self, method: str, path: str, token: str | Someone = "", **more: Any) -> httpx.Response:
        """Send a request and return the response. An exception in the application fails the test."""
        return self.run(self.request(method, path, token, **more))

    async def request(self, method: str, path: str, token: str | Someone = "", **more: Any) -> httpx.Response:
        """Send a request from a coroutine, for tests that send several concurrently."""
        text = token.token if isinstance(token, Someone) else token
        headers = {**({"Authorization": f"Bearer {text}"} if text else {}), **more.pop("headers", {})}
        return await self._client.request(method, path, headers=headers, **more)

    def json(self, method: str, path: str, token: str | Someone = "", **more: Any) -> Any:
        """Send a request that must succeed, and return the decoded body."""
        answer = self.ask(method, path, token, **more)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.json()

    def join(self, name: str, scopes: Sequence[str] = SCOPES, *, email: str = "") -> Someone:
        """Register a member with a token."""
        member = self.run(members.register(self.network.writes, name, email=email))
        app = self.run(oauth.register(self.network.writes, "Test", redirect_uris=("urn:x",), scopes=SCOPES)).app
        return Someone(member, self.token(app.id, member.id, scopes), app.id)

    def staff(self, name: str, role: Role) -> Someone:
        """Register a member with a staff role and a token with admin scopes."""
        made = self.join(name, STAFF_SCOPES)
        self.run(moderation.set_role(self.network.writes, made.member.id, role))
        self.settle()
        return made

    def token(self, app_id: int, member_id: int = 0, scopes: Sequence[str] = SCOPES) -> str:
        """Issue a token; without a member, it belongs to the app alone."""
        return self.run(oauth.issue_token(self.network.writes, app_id, member_id, scopes)).text

    def settle(self) -> None:
        """Wait until all consequences of earlier changes have run."""
        self.run(self.network.settle(_PATIENCE_SECONDS))

    def state(self) -> State:
        """Return the stored state after all consequences of earlier changes. Two are equal if nothing changed in between."""
        self.settle()
        return self.run(self._state())

    def files(self) -> tuple[str, ...]:
        """Return the keys of all media files, including files about to be deleted."""
        return self.run(self._files())

    async def _state(self) -> State:
        store = self.network.store
        noted = {one.id for one in await entries(store, AuditVerb.LOGIN_FAILED)}
        rows = await store.assoc_scan((FIRST, 0, FIRST), 100_000)
        return State(
            tuple(await store.obj_scan(FIRST, 100_000)),
            tuple(row for row in rows if row.atype != AUDITED.number or row.id2 not in noted),
            await self._files(),
        )

    async def _files(self) -> tuple[str, ...]:
        pages = obstore.list(self.network.media._store._store)
        return tuple([item["path"] async for page in pages for item in page])

    async def close(self) -> None:
        """Close the HTTP client."""
        await self._client.aclose()


@contextlib.contextmanager
def network_fixture(
    host_process: HostProcess | None = None, moderation: Check | None = None, **settings: Any
) -> Iterator[NetworkFixture]:
    """Open a network in memory, without rate limits by default; with `host_process`, as the owner for reader processes."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        chosen = configuration.load({}, **{"store": "memory://", "rate_limits": False, "archives": folder, **settings})
        stack = AsyncExitStack()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("shoal.app.network.IdMaker", partial(IdMaker, _one_by_one()))
            opening = open_network(chosen, host_process=host_process, moderation=moderation)
            network = runner.run(stack.enter_async_context(opening))
        made = NetworkFixture(network, runner)
        try:
            yield made
        finally:
            runner.run(made.close())
            runner.run(stack.aclose())


def _one_by_one() -> Callable[[], int]:
    """Return a clock that waits for a new millisecond on each call: ids made within one are ordered by shard."""
    latest = 0

    def tell() -> int:
        nonlocal latest
        now = latest
        for _ in range(100):
            now = time.time_ns() // 1_000_000
            if now > latest:
                break
            time.sleep(0.0002)
        # The system clock may have been set back.
        latest = max(now, latest + 1)
        return latest

    return tell


@contextlib.contextmanager
def served(
    pace: Pace = USUAL,
    first: Callable[[Network], Awaitable[None]] | None = None,
    patience: Patience = USUAL_PATIENCE,
    **settings: Any,
) -> Iterator[str]:
    """Serve a network on a free port in a separate thread, once `first` has run; yield the URL."""
    chosen = configuration.load({}, **{"store": "memory://", "rate_limits": False, "port": 0, **settings})
    told: list[str] = []
    handle: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = []
    ready = threading.Event()

    def tell(url: str) -> None:
        told.append(url)
        ready.set()

    async def main() -> None:
        async with open_network(chosen) as network:
            if first is not None:
                await first(network)
            parts = (network.settings, network.store, network.writes, network.reads, network.media, network.hub)
            limiter = steady_limiter(network.settings)
            app_parts = AppParts(*parts, pace=pace, patience=patience, limiter=limiter)
            task = asyncio.create_task(serve(app_parts, listener=listen("127.0.0.1", 0), ready=tell))
            handle.append((asyncio.get_running_loop(), task))
            with contextlib.suppress(asyncio.CancelledError):
                await task

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="shoal")
    thread.start()
    try:
        assert ready.wait(60), "the server did not start"
        yield told[0]
    finally:
        loop, task = handle[0]
        loop.call_soon_threadsafe(task.cancel)
        thread.join(60)
        assert not thread.is_alive()
