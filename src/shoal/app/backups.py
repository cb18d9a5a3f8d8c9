"""A network opened for a backup or as the target of a restore, and the URLs of backup repositories."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from shoal.admin.backups.backup import BackedNetwork
from shoal.admin.backups.repository import SavedTagRule
from shoal.admin.backups.restore import RestoreTarget
from shoal.app.backends import SNAPSHOTS
from shoal.app.indexes import tag_rules
from shoal.app.paths import media_url, push_key_path, sqlite_path
from shoal.app.stores import newest_map, open_store
from shoal.core.errors import InvalidInput
from shoal.graph.bulk import SnapshotSource
from shoal.graph.shard_map import shown_url
from shoal.media.store import MediaStore
from shoal.settings import Settings

_DYNAMODB = (
    "Shoal cannot back up DynamoDB: a table has no consistent snapshot. Turn point-in-time recovery "
    "on (aws dynamodb update-continuous-backups), and copy the media"
)
_MEMORY = "an in-memory store cannot be backed up"


def repository_url(text: str) -> str:
    return text if "://" in text else Path(text).absolute().as_uri()


@asynccontextmanager
async def open_backed(settings: Settings) -> AsyncIterator[BackedNetwork]:
    """Open the network that the settings describe while other processes may serve it.

    Raises `InvalidInput` for a store that does not support backups, and `Unavailable` if a store cannot be reached.
    """
    async with AsyncExitStack() as stack:
        known = await newest_map(settings)
        snapshots = [await _open_snapshot(url, stack) for url in known.stores]
        yield BackedNetwork(
            map=known,
            snapshots=snapshots,
            media=MediaStore.open(media_url(settings)),
            tag_rules=partial(_tag_rules, settings),
            push_key=None if settings.push_key else push_key_path(settings),
        )


async def _open_snapshot(url: str, stack: AsyncExitStack) -> SnapshotSource:
    scheme = urlsplit(url).scheme
    if scheme in {"dynamodb", "memory"}:
        raise InvalidInput(_DYNAMODB if scheme == "dynamodb" else _MEMORY)
    if scheme not in SNAPSHOTS:
        raise InvalidInput(f"store: {shown_url(url)} does not support backups", field="store")
    snapshot: SnapshotSource = await SNAPSHOTS[scheme].load().connect(sqlite_path(url) if scheme == "sqlite" else url)
    stack.push_async_callback(snapshot.close)
    return snapshot


async def _tag_rules(settings: Settings) -> Sequence[SavedTagRule]:
    return [SavedTagRule(rule.name, rule.denied, rule.target) for rule in await tag_rules(settings)]


@asynccontextmanager
async def open_target(settings: Settings) -> AsyncIterator[RestoreTarget]:
    """Open the stores that the settings name exclusively, and create their tables.

    Raises `Unavailable` for a store that cannot be opened, and `InvalidInput` for an unsupported URL.
    """
    async with AsyncExitStack() as stack:
        store = await open_store(settings, stack, read_only=False, sole=True)
        key = None if settings.push_key else push_key_path(settings)
        yield RestoreTarget(store, MediaStore.open(media_url(settings)), key)
