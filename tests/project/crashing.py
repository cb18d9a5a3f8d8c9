"""A program that projects recorded pages, killed at each commit: `python -m tests.project.crashing PAGES TARGET`.

One process is killed before its first commit, the next one after it, further ones before and after their second commit, and so on,
until one finds nothing left to do. For Parquet files, others are killed before and after the first file that they write.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from shoal_project.changes import Event
from shoal_project.projection import EventsPage, Projection
from shoal_project.targets import PostgresTarget, Target, opened


class Death(NamedTuple):
    """Where a process is killed: at a commit or the writing of a file, before it or after it. None makes more commits."""

    statement: str
    is_after: bool
    commit: int = 1


_DEATHS = [Death("COMMIT", is_after, commit) for commit in (1, 2) for is_after in (False, True)]
_FILE_DEATHS = [Death("COPY", is_after=False), Death("COPY", is_after=True)]


class RecordedSource:
    """Pages by the method and position with which they were requested."""

    def __init__(self, pages: dict[tuple[Any, ...], Any]) -> None:
        self.pages = pages

    async def end(self) -> str:
        return cast("str", self.pages["end",])

    async def events(self, after: str, wait: int) -> EventsPage:
        return cast("EventsPage", self.pages.get(("events", after), EventsPage([], after, more=False)))

    async def state(self, after: str, member_id: int) -> tuple[Sequence[Event], str | None]:
        return cast("tuple[Sequence[Event], str | None]", self.pages["state", after, member_id])


class _Mortal:
    """A connection whose process is killed."""

    def __init__(self, connection: Any, death: Death) -> None:
        self._connection = connection
        self._death = death
        self._commits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    @contextmanager
    def _dying(self, sql: str) -> Iterator[None]:
        self._commits += sql.startswith("COMMIT")
        is_here = sql.startswith(self._death.statement) and (sql != "COMMIT" or self._commits == self._death.commit)
        if is_here and not self._death.is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        yield
        if is_here or self._commits >= self._death.commit:
            os.kill(os.getpid(), signal.SIGKILL)

    def execute(self, sql: str, *args: Any) -> Any:
        with self._dying(sql):
            return self._connection.execute(sql, *args)

    def transaction(self) -> _MortalTransaction:
        return _MortalTransaction(self)

    def begin(self) -> Any:
        return self._connection.transaction()

    async def commit(self, transaction: Any) -> None:
        with self._dying("COMMIT"):
            await transaction.commit()


class _MortalTransaction:
    def __init__(self, connection: _Mortal) -> None:
        self._connection = connection
        self._transaction = connection.begin()

    async def __aenter__(self) -> None:
        await self._transaction.start()

    async def __aexit__(self, *_: object) -> None:
        await self._connection.commit(self._transaction)


def _make_mortal(target: Target, death: Death) -> None:
    made = cast("Any", target)
    if isinstance(target, PostgresTarget):
        made._connection = _Mortal(made._connection, death)
        return
    open_ = made._open
    made._open = lambda: _Mortal(open_(), death)


async def follow(source: RecordedSource, to: str, death: Death) -> None:
    """Project all pages, and publish."""
    async with opened(to) as target:
        _make_mortal(target, death)
        projection = Projection(target, source, at_once=1)
        await projection.begin()
        while await projection.step():
            pass
        await target.publish()


def main() -> None:
    """Print how many processes were killed."""
    source = RecordedSource(pickle.loads(Path(sys.argv[1]).read_bytes()))  # noqa: S301  # the test wrote it
    to = sys.argv[2]
    deaths = _DEATHS + (_FILE_DEATHS if to.startswith("parquet:") else [])
    for number in range(1_000):
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(follow(source, to, deaths[number % len(deaths)]))
            except BaseException:  # noqa: BLE001  # the child must not return into the loop
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            if os.WEXITSTATUS(status):
                sys.exit(1)
            sys.stdout.write(f"{number}\n")
            return
    sys.exit("no end after 1,000 processes")


if __name__ == "__main__":
    main()
