"""Updates on the tag cloud between the processes of a network: through the channel, or through shared memory on one host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from shoal.app.shared import HostProcess, Sharing
from shoal.core.errors import Unavailable
from shoal.multiprocess.shared_memory import TAG_UPDATES, SharedMemory
from shoal.settings import Settings
from shoal.streaming import updates
from shoal.streaming.contract import Channel
from shoal.tagcloud.updates import VersionUpdate, VersionUpdates

_PUBLISH_SECONDS = 1.0
"""Maximum delay of a merge while the channel does not answer."""


def tag_updates_of(settings: Settings, sharing: Sharing | None, host_process: HostProcess | None) -> VersionUpdates:
    polling = settings.tag_cloud_refresh == "poll"
    if sharing is not None:
        return ChannelUpdates(sharing.channel, polling=polling)
    if host_process is None:
        return VersionUpdates(polling=polling)
    if host_process.reader is None:
        return OwnersUpdates(host_process.memory, polling=polling)
    return ReadUpdates(host_process.memory, host_process.reader.alive, polling=polling)


class ChannelUpdates(VersionUpdates):
    """Version updates over the update log. `follow` starts reading the log, and returns whether every update is received."""

    def __init__(self, channel: Channel, *, polling: bool = False) -> None:
        super().__init__(polling=polling)
        self._channel = channel
        self.follow: Callable[[], bool] = lambda: False

    async def publish(self, version: int) -> None:
        with suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(_PUBLISH_SECONDS):
                await self._channel.publish(updates.encode(updates.TagCloudMerged(version)))

    def _is_connected(self) -> bool:
        return self.follow()


class OwnersUpdates(VersionUpdates):
    """Version updates from the owner of a store, counted in the memory shared with reader processes."""

    def __init__(self, memory: SharedMemory, *, polling: bool = False) -> None:
        super().__init__(polling=polling)
        self._words = memory.words
        # The previous owner may have ended before it reported the newest versions of the tag cloud.
        self.receive(0)

    def receive(self, version: int) -> None:
        super().receive(version)
        self._words[TAG_UPDATES] += 1


class ReadUpdates(VersionUpdates):
    """Version updates in a reader process, which reads the owner's counter in shared memory."""

    def __init__(self, memory: SharedMemory, alive: Callable[[], bool], *, polling: bool = False) -> None:
        super().__init__(polling=polling)
        self._words = memory.words
        self._alive = alive

    def newest(self) -> VersionUpdate | None:
        return None if super().newest() is None else VersionUpdate(self._words[TAG_UPDATES], 0)

    def _is_connected(self) -> bool:
        return self._alive()
