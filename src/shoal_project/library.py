"""`Shoal.project`, the library's form of `shoal project --once`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

from shoal.app.network import Network
from shoal.cli.stores import Performer
from shoal.core.errors import Gone, InvalidInput
from shoal_project.changes import INCLUDES
from shoal_project.projection import REBUILD, Projection
from shoal_project.sources import StoreSource, refuse_store
from shoal_project.targets import opened


async def project(network: Network, url: str, include: Sequence[str], *, rebuild: bool) -> None:
    """Store all events so far in the tables at the URL."""
    chosen = (include,) if isinstance(include, str) else tuple(include)
    if unknown := [name for name in chosen if name not in INCLUDES]:
        raise InvalidInput(f"include: allowed are {', '.join(INCLUDES)} (got {unknown[0]!r:.100})", field="include")
    refuse_store(network.settings, url, "url")
    async with AsyncExitStack() as stack:
        source = StoreSource(Performer(network.settings, stack, network), network.settings, private=bool(chosen))
        target = await stack.enter_async_context(opened(url, "url"))
        projection = Projection(target, source, chosen)
        try:
            await projection.begin(rebuild=rebuild)
            while await projection.step():
                pass
        except Gone as error:
            raise Gone(f"{error}: {REBUILD}") from error
        await target.publish()
