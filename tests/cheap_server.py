"""The modules and caches of a server, with cheap password hashes and without the names of towns, for `fork_template.py`.

The caches hold what a server derives from the code alone, such as the checks of its routes. Each fork would spend 0.13 of its 0.17
seconds of processor time on them.
"""

from __future__ import annotations

from importlib import import_module

from shoal import gazetteer, settings
from shoal.app import backends
from shoal.cli import serve
from shoal.graph import redis
from shoal.http.application import build_app
from shoal.http.rate_limits import MemoryLimiter, rules
from shoal.http.routes import Caller
from shoal.mastodon_api.routes import table
from shoal.outbox import rabbitmq
from shoal.web.assets import assets
from shoal.web.rendering import templates
from shoal.web.routes import pages
from tests.cheap_hashes import make_hashes_cheap
from tests.cheap_starts import make_starts_cheap, of_system

__all__ = ["rabbitmq", "redis", "serve"]


async def _nobody(*_: object) -> Caller | None:
    return None


def _prepare() -> None:
    """Fill the caches of this process, and import what a server imports when it uses it."""
    for known in (backends.STORES, backends.CLOUDS, backends.INDEXES):
        for backend in known.values():
            backend.load()
    import_module("anyio._backends._asyncio")
    usual = settings.load({})
    build_app((*table(usual), *pages(usual)), None, authenticate=_nobody, limiter=MemoryLimiter(rules(usual)))
    assets()
    environment = templates("en", "")
    for name in environment.list_templates(extensions=["html"]):
        environment.get_template(name)
    of_system()


make_hashes_cheap()
make_starts_cheap()
# Do not read the names of places, because that takes as long as starting the server.
vars(gazetteer)["installed"] = lambda: None
_prepare()
