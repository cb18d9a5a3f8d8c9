"""Files, sockets and URLs that follow from the settings."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from shoal.core.errors import InvalidInput
from shoal.graph.shard_map import shown_url
from shoal.settings import Settings

_MEDIA = "shoal.media"


def store_urls(settings: Settings) -> list[str]:
    """Return the URLs of the stores, each once, in the order of the shard map."""
    return [settings.store] if isinstance(settings.store, str) else list(dict.fromkeys(settings.store.values()))


def sqlite_path(url: str) -> Path:
    """Return the file that `sqlite:///relative` or `sqlite:////absolute` names."""
    return Path(url.removeprefix("sqlite:///") or "shoal.db")


def file_beside(settings: Settings, url: str, suffix: str) -> Path:
    """Return the file that a URL names, or, where it is empty, the one with this suffix beside the store's first file."""
    if url:
        return sqlite_path(url)
    first = sqlite_path(store_urls(settings)[0])
    return first.with_name(f"{first.name}.{suffix}")


def store_files(settings: Settings) -> list[Path]:
    """Return the files of the store, in the order of the shard map; none for a store that has no files."""
    return [sqlite_path(url) for url in store_urls(settings) if urlsplit(url).scheme == "sqlite"]


def media_url(settings: Settings) -> str:
    """Return the URL of the media: as set, or `<store>.media` beside the store's first file, or else `shoal.media`."""
    if settings.media:
        return settings.media
    first = urlsplit(store_urls(settings)[0])
    if first.scheme == "memory":
        return "memory://"
    if first.scheme != "sqlite":
        return Path(_MEDIA).absolute().as_uri()
    path = sqlite_path(store_urls(settings)[0])
    return path.absolute().with_name(f"{path.name}.media").as_uri()


def archives_folder(settings: Settings) -> Path:
    """Return the folder of archives that members send: as set, or `<store>.archives` beside the store's first file, or else
    `shoal.archives`; of a network in memory, one for this process alone.
    """
    if settings.archives:
        return Path(settings.archives)
    if files := store_files(settings):
        return files[0].with_name(f"{files[0].name}.archives")
    if urlsplit(store_urls(settings)[0]).scheme == "memory":
        return _archives_of_memory()
    return Path("shoal.archives")


@cache
def _archives_of_memory() -> Path:
    """Make the folder of a network in memory. It ends with the process, so that no later process with this number finds it."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-archives-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def control_path(settings: Settings) -> Path | None:
    """Return the socket where a server of this store listens to its operator: `<store>.sock` beside the first file."""
    files = store_files(settings)
    return files[0].with_name(f"{files[0].name}.sock") if files else None


def calls_path(settings: Settings) -> Path | None:
    """Return the socket where the owner of a shared store takes calls: `<store>.calls.sock`; None for any other store."""
    files = store_files(settings)
    return files[0].with_name(f"{files[0].name}.calls.sock") if files and isinstance(settings.store, str) else None


def readers_path(settings: Settings) -> Path | None:
    """Return the socket where the owner of a store meets those that read beside it: `<store>.readers.sock`; None for any other
    store than one SQLite file."""
    files = store_files(settings)
    return files[0].with_name(f"{files[0].name}.readers.sock") if files and isinstance(settings.store, str) else None


def push_key_path(settings: Settings) -> Path | None:
    """Return the file of the key for web push, `<store>.push-key` beside the first file; None for a store without files."""
    files = store_files(settings)
    return files[0].with_name(f"{files[0].name}.push-key") if files else None


def base_url(settings: Settings) -> str:
    """Return the root of every URL that clients are given, without a slash at the end."""
    return (settings.base_url or f"http://{settings.host}:{settings.port}").rstrip("/")


def check_base_url(url: str) -> None:
    """Raise `InvalidInput` for a `base_url` that is no root of addresses: a scheme and a host, without a path."""
    parts = urlsplit(url)
    try:
        host, _port = parts.hostname, parts.port
    except ValueError:
        host = None
    if parts.scheme not in {"http", "https"} or not host or parts.path.strip("/") or parts.query or parts.username:
        raise InvalidInput(
            f"base_url: an address such as https://social.example.org, not {shown_url(url)!r}", field="base_url"
        )


def domain_of(settings: Settings) -> str:
    """Return our own domain in `@user@domain`."""
    return urlsplit(base_url(settings)).hostname or "localhost"
