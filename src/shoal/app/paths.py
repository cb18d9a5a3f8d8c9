"""Files, sockets and URLs that follow from the settings."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from shoal.core.errors import InvalidInput
from shoal.graph.shard_map import shown_url
from shoal.settings import Settings

_MEDIA = "shoal.media"


def store_urls(settings: Settings) -> list[str]:
    return distinct_urls(settings.store)


def distinct_urls(setting: str | Mapping[str, str]) -> list[str]:
    """Return the distinct URLs of a setting that is a URL, empty, or a shard map."""
    return list(filter(None, [setting] if isinstance(setting, str) else dict.fromkeys(setting.values())))


def sqlite_path(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///") or "shoal.db")


def sibling_file(settings: Settings, url: str, suffix: str) -> Path:
    """Return the file of a URL. If the URL is empty, return the path of the store's first file with this suffix appended."""
    if url:
        return sqlite_path(url)
    first = sqlite_path(store_urls(settings)[0])
    return first.with_name(f"{first.name}.{suffix}")


def store_files(settings: Settings) -> list[Path]:
    return [sqlite_path(url) for url in store_urls(settings) if urlsplit(url).scheme == "sqlite"]


def media_url(settings: Settings) -> str:
    """Return the media URL: the setting, or `<store>.media` next to the store's first file, or `shoal.media`."""
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
    """Return the folder of uploaded archives.

    It is the setting, or `<store>.archives` next to the store's first file, or `shoal.archives`. A store in memory has a
    temporary folder of this process.
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
    """Create the archives folder for a store in memory. It is removed at exit, so that no later process finds it."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-archives-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def control_path(settings: Settings) -> Path | None:
    """Return the control socket of a server with this store: `<store>.sock` next to the first file."""
    files = store_files(settings)
    return files[0].with_name(f"{files[0].name}.sock") if files else None


def calls_path(settings: Settings) -> Path | None:
    """Return the socket for calls to the owner of a shared store: `<store>.calls.sock`; None for other stores."""
    files = store_files(settings)
    return files[0].with_name(f"{files[0].name}.calls.sock") if files and isinstance(settings.store, str) else None


def readers_path(settings: Settings) -> Path | None:
    """Return the socket between a store's owner and readers: `<store>.readers.sock`; None unless the store is one SQLite file."""
    files = store_files(settings)
    return files[0].with_name(f"{files[0].name}.readers.sock") if files and isinstance(settings.store, str) else None


def push_key_path(settings: Settings) -> Path | None:
    """Return the file of the web push key, `<store>.push-key` next to the first file; None for a store without files."""
    files = store_files(settings)
    return files[0].with_name(f"{files[0].name}.push-key") if files else None


def base_url(settings: Settings) -> str:
    """Return the root of all public URLs, without a trailing slash."""
    return (settings.base_url or f"http://{settings.host}:{settings.port}").rstrip("/")


def check_base_url(url: str) -> None:
    """Raise `InvalidInput` unless `base_url` is a scheme and a host without a path."""
    parts = urlsplit(url)
    try:
        host, _port = parts.hostname, parts.port
    except ValueError:
        host = None
    if parts.scheme not in {"http", "https"} or not host or parts.path.strip("/") or parts.query or parts.username:
        raise InvalidInput(
            f"base_url: expected a URL such as https://social.example.org, not {shown_url(url)!r}", field="base_url"
        )


def domain_of(settings: Settings) -> str:
    """Return the domain of this server in `@user@domain`."""
    return urlsplit(base_url(settings)).hostname or "localhost"
