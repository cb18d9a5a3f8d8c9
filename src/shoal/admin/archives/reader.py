"""Process that reads one archive, run as `python -m shoal.admin.archives.reader`.

Archives are untrusted, so all of an archive is read in this process, under limits, and never in the server. The process
recognizes the format from the archive's contents. It reads a `Job` from stdin, saves the plan in the job's folder, and then
answers requests for photos until stdin is closed (`multiprocess/frames.py`).
"""

from __future__ import annotations

import errno
import os
import resource
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from shoal.admin.archives.entries import Entries, opened
from shoal.admin.archives.formats.bluesky import BlueskyArchive, is_car
from shoal.admin.archives.formats.instagram import PAGES, POSTS, InstagramArchive
from shoal.admin.archives.formats.mastodon import OUTBOX, MastodonArchive
from shoal.admin.archives.formats.own_export import PROFILE, OwnExport
from shoal.admin.archives.formats.pixelfed import STATUSES, PixelfedArchive
from shoal.admin.archives.formats.x import SCRIPTS, XArchive
from shoal.admin.archives.plan import ArchivePlan
from shoal.admin.archives.records import ArchiveReader, ArchiveReport
from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.ids import now_ms
from shoal.media.confined import confine
from shoal.multiprocess.frames import read_frame, write_frame

_UNKNOWN = (
    "file: unknown archive format; upload the ZIP of Mastodon, Instagram (as JSON), X or Shoal, pixelfed-statuses.json of"
    " Pixelfed, or the CAR file of Bluesky"
)
_AS_PAGES = "file: this Instagram archive has HTML pages only: request it again from Instagram in JSON format"
_HEAD = 4096


def reader_of(entries: Entries, folder: Path) -> ArchiveReader:
    """Return the reader for the format of an archive; it unpacks into `folder`. Raises `InvalidInput` for an unknown format."""
    return _of_one(entries, folder) if entries.single else _of_several(entries, folder)


def _of_one(entries: Entries, folder: Path) -> ArchiveReader:
    with entries.opened("") as file:
        head = file.read(_HEAD)
    if is_car(head):
        return BlueskyArchive(entries, folder)
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        found = PixelfedArchive(entries)
        if found.is_one:
            return found
    raise InvalidInput(_UNKNOWN, field="file")


def _of_several(entries: Entries, folder: Path) -> ArchiveReader:
    if root := entries.root(OUTBOX):
        return MastodonArchive(entries, root.prefix)
    if root := entries.root(*SCRIPTS):
        return XArchive(entries, root)
    if root := entries.root(*POSTS):
        return InstagramArchive(entries, root)
    if root := entries.root(STATUSES):
        return PixelfedArchive(entries, root.found)
    if (root := entries.root(PROFILE)) and f"{root.prefix}media.json" in entries:
        return OwnExport(entries, root.prefix)
    if repositories := entries.below("", ".car"):
        return BlueskyArchive(entries, folder, repositories[0])
    raise InvalidInput(_AS_PAGES if entries.root(*PAGES) else _UNKNOWN, field="file")


_NICENESS = 10
"""Niceness of this process. The server's requests have priority."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MOST_TRACEBACK = 10_000


class Job(msgspec.Struct, frozen=True):
    """An archive to read, and limits: seconds of CPU time, bytes of memory, and bytes of all JSON documents together."""

    path: bytes
    folder: bytes
    seconds: int
    memory: int
    most_bytes: int


class PhotoRequest(msgspec.Struct, frozen=True):
    """A request for a photo of at most `most_bytes`, by its name in the archive."""

    file: str
    most_bytes: int


class PostsRead(msgspec.Struct, frozen=True, tag=True):
    count: int


class Planned(msgspec.Struct, frozen=True, tag=True):
    """The message that the archive was read and the plan of its import saved."""

    report: ArchiveReport


class PhotoData(msgspec.Struct, frozen=True, tag=True):
    data: bytes


class Refusal(msgspec.Struct, frozen=True, tag=True):
    """An error in the reader process. `message` may be shown to users, unless the kind is `internal`."""

    kind: Literal["invalid", "too_large", "limits", "full", "os", "internal"]
    message: str
    number: int = 0


Message = PostsRead | Planned | PhotoData | Refusal


def main() -> None:
    """Read the archive and save its import plan. Then send each requested photo, until the server closes the pipe."""
    # Send the answers over a copy of the descriptor, because a library may print to stdout.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    server = os.getppid()
    job = msgspec.msgpack.decode(read_frame(sys.stdin.buffer), type=Job)
    # Allow twice `most_bytes` on disk, because a repacked tar is slightly larger than its files.
    confine(job.seconds, job.memory, 2 * job.most_bytes)
    # This process must not start others. The limit has no effect if the process runs as root.
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    os.nice(_NICENESS)

    def send(message: Message) -> None:
        write_frame(answers, message)

    def check_server() -> None:
        if os.getppid() != server:
            raise SystemExit

    path, folder = Path(os.fsdecode(job.path)), Path(os.fsdecode(job.folder))
    with suppress(BrokenPipeError), _refusals(send), opened(path, folder, job.most_bytes, check_server) as entries:
        plan = ArchivePlan(folder)
        report = plan.fill(reader_of(entries, folder), now_ms(), lambda n: send(PostsRead(n)))
        plan.save()
        del plan
        send(Planned(report))
        while request := read_frame(sys.stdin.buffer):
            with _refusals(send):
                photo = msgspec.msgpack.decode(request, type=PhotoRequest)
                send(PhotoData(entries.read(photo.file, photo.most_bytes)))


@contextmanager
def _refusals(send: Callable[[Message], None]) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except TooLarge as error:
        send(Refusal("too_large", str(error)))
    except InvalidInput as error:
        send(Refusal("invalid", str(error)))
    except MemoryError:
        send(Refusal("limits", ""))
    except OSError as error:
        send(Refusal("full" if error.errno in _FULL else "os", str(error.strerror), error.errno or 0))
    except Exception:  # noqa: BLE001  # the server logs it
        send(Refusal("internal", traceback.format_exc()[-_MOST_TRACEBACK:]))


if __name__ == "__main__":
    main()
