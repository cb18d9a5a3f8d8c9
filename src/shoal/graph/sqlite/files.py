"""SQLite files: connections, transactions, and the lock file that names the process which has a store open."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from shoal import private_files
from shoal.core.errors import InUse

_PRAGMAS = "PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000; PRAGMA temp_store = MEMORY; PRAGMA cache_size = {};"
_WAL_SECONDS = 5.0

LOG_BYTES = 16 << 20
"""Size of the write-ahead log at which its pages are copied into the file: a page that changed many times is copied once."""


def connect(
    path: Path, cache_kib: int, *, read_only: bool = False, page_bytes: int = 4_096, log_bytes: int = LOG_BYTES
) -> sqlite3.Connection:
    """Open a connection. A read-only one neither creates nor changes the file. An existing file keeps its page size."""
    if not read_only:
        _make_private(path)
    name = f"{path.absolute().as_uri()}?mode={'rw' if read_only else 'rwc'}"
    connection = sqlite3.connect(name, uri=True, isolation_level=None, check_same_thread=False, cached_statements=512)
    try:
        connection.executescript(_PRAGMAS.format(-cache_kib))
        if read_only:
            connection.execute("PRAGMA query_only = ON")
        else:
            connection.execute(f"PRAGMA page_size = {page_bytes}")
            _to_wal(connection)
            _bound_log(connection, log_bytes)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    """Create the file with private permissions, which SQLite copies to its `-wal` and `-shm` files."""
    # Ignore errors of the path here: SQLite reports them when it opens the file.
    with contextlib.suppress(OSError):
        os.close(private_files.open_file(path, os.O_RDWR))
        for suffix in ("-wal", "-shm"):
            private_files.narrow(path.with_name(path.name + suffix))


def _bound_log(connection: sqlite3.Connection, log_bytes: int) -> None:
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    connection.execute(f"PRAGMA wal_autocheckpoint = {log_bytes // page_bytes}")
    # A long-running reader may have let the log grow: SQLite truncates it to this size when it restarts the log.
    connection.execute(f"PRAGMA journal_size_limit = {log_bytes}")


def _to_wal(connection: sqlite3.Connection) -> None:
    """Enable the write-ahead log, with retries: SQLite does not wait while another process opens the new file."""
    deadline = time.monotonic() + _WAL_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit everything that the block writes, or nothing. After an error no transaction is open."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def roll_back(connection: sqlite3.Connection) -> None:
    """Roll back the open transaction, if any. Errors of the rollback are ignored."""
    if connection.in_transaction:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


_LONGEST_COMMAND = 200


def note(lock: int) -> None:
    """Write the id of this process to the lock file. A failure, as on a full disk, does not prevent opening the store."""
    with suppress(OSError):
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)


def describe_owner(lock: int) -> str:
    """Describe the process in the lock file, such as ", 57 (shoal serve)"; empty if there is none or it has ended."""
    with suppress(OSError, ValueError):
        pid = int(os.pread(lock, 20, 0))
        return f", {pid} ({_command(pid)})"
    return ""


def _command(pid: int) -> str:
    """Return the command line of a process without directories and, before a script, without the Python interpreter."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    if Path(words[0]).name.startswith("python") and len(words) > 1 and not words[1].startswith("-"):
        del words[0]
    return " ".join([Path(words[0]).name, *words[1:]])[:_LONGEST_COMMAND]


def own(path: Path) -> int:
    """Lock a store by its lock file. Raises `InUse` if another process has it open."""
    lock = private_files.open_file(f"{path}-lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        by = describe_owner(lock)
        os.close(lock)
        raise InUse(f"the store {path.name} is in use by another process{by}: stop that process first") from error
    note(lock)
    _own_locks.add(lock)
    return lock


def release(lock: int) -> None:
    _own_locks.discard(lock)
    os.close(lock)


def _leave_to_parent() -> None:
    """Close inherited locks after a fork: otherwise the store stays locked as long as any child process lives."""
    while _own_locks:
        os.close(_own_locks.pop())


_own_locks: set[int] = set()
os.register_at_fork(after_in_child=_leave_to_parent)
