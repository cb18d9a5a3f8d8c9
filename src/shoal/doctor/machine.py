"""The machine: disks, memory, limits, the clock, and programs that are installed."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from shoal.doctor.findings import SECONDS, Diagnosis, bad, ok, warn
from shoal.media.programs import Programs
from shoal.settings import Settings
from shoal.wiring.places import media_url, store_files

_GB = 1_000_000_000
_LITTLE_BYTES, _LITTLE_SHARE = _GB, 0.05
_NOTHING_BYTES, _NOTHING_SHARE = 100_000_000, 0.01
_FILES, _FEW_FILES = 8_192, 1_024
_BARE_BYTES = 220_000_000
"""A web process that remembers nothing, with the request bodies that it takes at most."""
_UNSYNCHRONIZED = 5
"""The answer of the kernel when nobody sets its clock (adjtimex(2), TIME_ERROR)."""
_TIMEX_BYTES = 512
_LEAST_SQLITE = (3, 38)


def disks(settings: Settings) -> Iterator[Diagnosis]:
    """Look at the room of each file system that is written to, at its inodes, and whether it may be written to."""
    places: dict[int, tuple[Path, list[str]]] = {}
    for what, path in _written(settings):
        there = _existing(path)
        if not os.access(there, os.W_OK | os.X_OK):
            yield bad(
                "disk", f"{there} ({what}) cannot be written to by this user", "run this as the user of the server"
            )
        places.setdefault(there.stat().st_dev, (there, []))[1].append(what)
    for path, names in places.values():
        yield _room(path, " and ".join(dict.fromkeys(names)))
    temporary = Path(tempfile.gettempdir())
    if _is_in_memory(temporary):
        said = f"{temporary} is in memory, and uploads lie there while they come"
        yield warn("tmp", said, "set TMPDIR to a directory on a disk")


def _written(settings: Settings) -> Iterator[tuple[str, Path]]:
    for file in store_files(settings):
        yield "store", file.absolute().parent
    media = urlsplit(media_url(settings))
    if media.scheme == "file":
        yield "media", Path(unquote(media.path))
    yield "tmp", Path(tempfile.gettempdir())


def _existing(path: Path) -> Path:
    return next(one for one in (path, *path.absolute().parents) if one.is_dir())


def _room(path: Path, what: str) -> Diagnosis:
    told = os.statvfs(path)
    free, total = told.f_bavail * told.f_frsize, told.f_blocks * told.f_frsize
    inodes = told.f_favail / told.f_files if told.f_files else 1.0
    said = f"{what} at {path}: {free / _GB:,.1f} GB free of {total / _GB:,.1f} GB"
    if inodes < _LITTLE_SHARE:
        said = f"{what} at {path}: {inodes:.1%} of the inodes are free"
    if free < max(_NOTHING_BYTES, _NOTHING_SHARE * total) or inodes < _NOTHING_SHARE:
        return bad("disk", said, "free some room: on a full disk nobody can post")
    if free < max(_LITTLE_BYTES, _LITTLE_SHARE * total) or inodes < _LITTLE_SHARE:
        return warn("disk", said, "free some room soon")
    return ok("disk", said)


def _is_in_memory(path: Path) -> bool:
    lines = Path("/proc/mounts").read_text().splitlines()
    mounts = {Path(fields[1]): fields[2] for fields in map(str.split, lines)}
    return next((mounts[one] for one in (path, *path.absolute().parents) if one in mounts), "") in {"tmpfs", "ramfs"}


def files(settings: Settings) -> Diagnosis:
    """Look at the limit on open files: of the running server where it can be seen, else of this process."""
    most, whose = _files_of_server(settings)
    if most < _FEW_FILES:
        return bad("files", f"{whose} may open {most:,} files", "raise the limit to 65,536 (LimitNOFILE in the unit)")
    if most < _FILES:
        said = f"{whose} may open {most:,} files, and half of them are connections"
        return warn("files", said, "raise the limit to 65,536 (LimitNOFILE in the unit)")
    return ok("files", f"{whose} may open {most:,} files")


def _files_of_server(settings: Settings) -> tuple[int, str]:
    for file in store_files(settings)[:1]:
        try:
            pid = int(file.with_name(f"{file.name}-lock").read_text() or 0)
            limits = Path(f"/proc/{pid}/limits").read_text()
            line = next(line for line in limits.splitlines() if line.startswith("Max open files"))
            return int(line.split()[4]), f"the server (process {pid})"
        except (OSError, ValueError, StopIteration):
            pass
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return (1 << 20 if hard == resource.RLIM_INFINITY else hard), "a process started here"


def memory(settings: Settings) -> Diagnosis:
    """Compare the memory of this machine, or of its control group, with what one process may come to need."""
    has = min(_total_bytes(), *_group_bytes())
    timelines = settings.timeline_members * settings.timeline_length * 8
    most = _BARE_BYTES + 4_000 * settings.object_cache
    most += timelines if urlsplit(settings.timelines).scheme == "memory" else 0
    said = f"{has / _GB:,.1f} GB; one process grows to {most / _GB:,.1f} GB when its caches are full"
    if has < most:
        return warn("memory", said, "lower object_cache or timeline_members, or add memory")
    return ok("memory", said)


def _total_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _group_bytes() -> Iterable[int]:
    try:
        group = Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip()
    except OSError:
        group = "/"
    for folder in (f"/sys/fs/cgroup{group}", "/sys/fs/cgroup"):
        try:
            text = (Path(folder) / "memory.max").read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            return [int(text)]
    return [1 << 62]


def clock() -> Diagnosis:
    """Ask the kernel whether anything sets its clock."""
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    if state == _UNSYNCHRONIZED:
        advice = "install systemd-timesyncd or chrony; in a container, on the machine that runs it"
        return warn("clock", "nothing sets the clock of this machine", advice)
    if state < 0:
        return ok("clock", "the kernel does not tell here whether its clock is set")
    return ok("clock", "the clock is set from the network")


async def programs() -> Diagnosis:
    """Look for ffmpeg, and run it."""
    found = Programs.found()
    if found is None:
        said = "not installed: videos and sounds are refused"
        return warn("ffmpeg", said, "apt-get install ffmpeg, where members are to upload them")
    process = await asyncio.create_subprocess_exec(
        found.ffmpeg, "-version", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(SECONDS):
            told, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        return bad("ffmpeg", f"{found.ffmpeg} ends with status {process.returncode}", "install it anew")
    return ok("ffmpeg", " ".join(told.decode(errors="replace").split()[:3]))


def sqlite() -> Diagnosis:
    """Look at the SQLite library: its version, and whether it searches full texts."""
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < _LEAST_SQLITE:
        return bad(
            "sqlite", f"{version} is too old", f"use a Python with SQLite {'.'.join(map(str, _LEAST_SQLITE))} or newer"
        )
    try:
        with sqlite3.connect(":memory:") as connection:
            connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")
    except sqlite3.OperationalError:
        return bad("sqlite", f"{version} is built without FTS5", "use a Python whose SQLite has FTS5, such as Debian's")
    return ok("sqlite", version)
