"""The API, media files and pages of an open network inside another application: FastAPI, Starlette, or any that speaks ASGI.

app.mount("/social", asgi_app(shoal))
"""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.admin.archives.storage import ArchiveShelf
from shoal.admin.archives.worker import ArchiveDesk
from shoal.app.paths import archives_folder
from shoal.library import Shoal
from shoal.mastodon_api.context import Deps, front_of
from shoal.server import application

__all__ = ["asgi_app"]

_MOST_ROOTS = 16
"""A framework may take the path from a header, so clients could name ever new ones."""
_HTTP = {"ws": "http", "wss": "https"}
_PORTS = {"http": 80, "https": 443}


def asgi_app(shoal: Shoal) -> ASGIApp:
    """Return the application of an open network. It must run in the event loop in which the network was opened.

    URLs begin with the setting `base_url`. Where that has no path, the path of the mount is added (`root_path`); where it is not
    set, they begin with the address at which the server listens, which does for trying things out.
    """
    return _Mounted(shoal)


class _Mounted:
    """One application for each address at which the network is found, made when it is first asked for."""

    def __init__(self, shoal: Shoal) -> None:
        self._shoal = shoal
        self._settings = shoal.network.settings
        self._apps: dict[str, ASGIApp] = {}
        self._desk: ArchiveDesk | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        else:
            await self._app(self._root(scope))(_inside(scope), receive, send)

    def _app(self, root: str) -> ASGIApp:
        app = self._apps.get(root)
        if app is None:
            if len(self._apps) == _MOST_ROOTS:
                return next(iter(self._apps.values()))
            app = self._apps[root] = self._made(root)
        return app

    def _made(self, root: str) -> ASGIApp:
        network = self._shoal.network
        parts = (network.settings, network.store, network.writes, network.reads, network.media, network.hub)
        front = front_of(
            Deps(
                *parts,
                network.limiter,
                root,
                probes=network.probes,
                engines=network.engines,
                server_key=network.server_key,
                recorder=network.recorder,
                archives=self._shelf(),
            )
        )
        self._shoal.closing.push_async_callback(front.uses.close)
        self._shoal.closing.push_async_callback(front.background.close)
        self._shoal.closing.push_async_callback(front.network_totals.close)
        self._shoal.closing.push_async_callback(front.ledger.close)
        self._shoal.closing.callback(front.streams.stop)
        # Whether browsers may use plain HTTP is for the application around this one to say: it is about the whole host.
        return application(front, https=False)

    def _shelf(self) -> ArchiveShelf:
        if self._desk is None:
            shelf = ArchiveShelf(archives_folder(self._settings), self._settings.max_archive_bytes)
            self._desk = ArchiveDesk(self._shoal.network, shelf)
            self._desk.start()
            self._shoal.closing.push_async_callback(self._desk.stop)
        return self._desk.shelf

    def _root(self, scope: Scope) -> str:
        """The root of all URLs, without a slash at the end."""
        base = self._settings.base_url.rstrip("/")
        if urlsplit(base).path:
            return base
        return (base or self._origin(scope)) + quote(scope.get("root_path", "").rstrip("/"))

    def _origin(self, scope: Scope) -> str:
        scheme: str = scope["scheme"]
        scheme = _HTTP.get(scheme, scheme)
        host, port = scope.get("server") or ("", None)
        if port is None:
            # The server listens at a Unix socket.
            host, port = self._settings.host, self._settings.port
        name = f"[{host}]" if ":" in host else host
        return f"{scheme}://{name}" + ("" if _PORTS.get(scheme) == port else f":{port}")


def _inside(scope: Scope) -> Scope:
    """The scope as this application would have it by itself.

    A path has `root_path` at its beginning. Where a proxy took its part of that away, the path has only the part of the mounts.
    """
    path: str = scope["path"]
    whole = scope.get("root_path", "").rstrip("/")
    for prefix in (whole, whole.removeprefix(scope.get("app_root_path", ""))):
        if prefix and f"{path}/".startswith(f"{prefix}/"):
            path = path.removeprefix(prefix) or "/"
            break
    return {**scope, "path": path, "root_path": ""}


async def _lifespan(receive: Receive, send: Send) -> None:
    """Nothing happens: the network is opened and closed by its owner."""
    for _ in ("startup", "shutdown"):
        message = await receive()
        await send({"type": message["type"] + ".complete"})
