"""The API, media files and pages of an open network inside another ASGI application, such as FastAPI or Starlette.

Example: `app.mount("/social", asgi_app(shoal))`.
"""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.admin.archives.storage import ArchiveStorage
from shoal.admin.archives.worker import ArchiveWorker
from shoal.app.paths import archives_folder
from shoal.http.application import lifespan
from shoal.library import Shoal
from shoal.mastodon_api.context import AppParts, app_context_of
from shoal.server import application

__all__ = ["asgi_app"]

_MOST_ROOTS = 16
"""Maximum number of root URLs.

A framework may read the path from a header, so clients could otherwise create any number of them.
"""
_HTTP = {"ws": "http", "wss": "https"}
_PORTS = {"http": 80, "https": 443}


def asgi_app(shoal: Shoal) -> ASGIApp:
    """Return the ASGI application of an open network. It must run in the event loop in which the network was opened.

    URLs begin with the setting `base_url`. If `base_url` has no path, the path of the mount (`root_path`) is appended.
    Without `base_url`, URLs begin with the address at which the server listens, which is sufficient for experiments.
    """
    return _Mounted(shoal)


class _Mounted:
    """An ASGI application that creates one web application for each root URL on first use, and delegates to it."""

    def __init__(self, shoal: Shoal) -> None:
        self._shoal = shoal
        self._settings = shoal.network.settings
        self._apps: dict[str, ASGIApp] = {}
        self._archive_worker: ArchiveWorker | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
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
        app_context = app_context_of(
            AppParts(
                *parts,
                network.limiter,
                root,
                probes=network.probes,
                engines=network.engines,
                server_key=network.server_key,
                recorder=network.recorder,
                archives=self._archive_storage(),
            )
        )
        self._shoal.closing.push_async_callback(app_context.close)
        self._shoal.closing.callback(app_context.streams.stop)
        # Send no HSTS header. It applies to the whole host, so the outer application decides whether browsers may use
        # plain HTTP.
        return application(app_context, https=False)

    def _archive_storage(self) -> ArchiveStorage:
        if self._archive_worker is None:
            archive_storage = ArchiveStorage(archives_folder(self._settings), self._settings.max_archive_bytes)
            self._archive_worker = ArchiveWorker(self._shoal.network, archive_storage)
            self._archive_worker.start()
            self._shoal.closing.push_async_callback(self._archive_worker.stop)
        return self._archive_worker.archive_storage

    def _root(self, scope: Scope) -> str:
        """Return the root of all URLs of the network, without a slash at the end."""
        base = self._settings.base_url.rstrip("/")
        if urlsplit(base).path:
            return base
        return (base or self._origin(scope)) + quote(scope.get("root_path", "").rstrip("/"))

    def _origin(self, scope: Scope) -> str:
        scheme: str = scope["scheme"]
        scheme = _HTTP.get(scheme, scheme)
        host, port = scope.get("server") or ("", None)
        if port is None:
            # If the server listens on a Unix socket, the scope has no host and port.
            host, port = self._settings.host, self._settings.port
        name = f"[{host}]" if ":" in host else host
        return f"{scheme}://{name}" + ("" if _PORTS.get(scheme) == port else f":{port}")


def _inside(scope: Scope) -> Scope:
    """Return the ASGI scope as it would be without mounts.

    The path normally begins with `root_path`. If a proxy has removed its own prefix, the path begins with the prefix of
    the mounts only.
    """
    path: str = scope["path"]
    whole = scope.get("root_path", "").rstrip("/")
    for prefix in (whole, whole.removeprefix(scope.get("app_root_path", ""))):
        if prefix and f"{path}/".startswith(f"{prefix}/"):
            path = path.removeprefix(prefix) or "/"
            break
    return {**scope, "path": path, "root_path": ""}
