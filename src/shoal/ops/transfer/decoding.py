"""The decoder of an import: a server decodes one picture at a time beside its requests; an import has nothing else to do."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shoal.commands.context import Writes
from shoal.ops.network import AnyNetwork
from shoal.ops.transfer.imported_posts import Rememberer


@asynccontextmanager
async def with_own_decoder(network: AnyNetwork) -> AsyncIterator[Writes]:
    """Give what services write with, its media decoded by as many processes as there are cores."""
    async with Rememberer(network.media.limits, children=os.cpu_count() or 1) as decoder:
        yield dataclasses.replace(network.writes, media=network.media.with_decoder(decoder))
