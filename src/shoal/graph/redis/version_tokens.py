"""Version tokens of objects on Redis (`cache.coherence.VersionTokens`), which let several processes cache what they read.

Each object has one key, which holds either its version token or the change marks of the processes that are changing it. A change
mark has a deadline, in case its process died. The token is deleted when a change begins. The end of a change sets the next token if
it was the only change since then. A server that took over from another, or was restarted, has another history (replication id),
which is part of every token, so all its tokens are new. In the first seconds of a new history no tokens are valid: a writer may
still be about to report a change made at the end of the previous history.

While a server cannot be reached, changes that must be reported to it are kept in bounded memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.errors import Unavailable
from shoal.core.ids import shard_of
from shoal.core.placement import SHARDS
from shoal.graph.cache.coherence import MarkedChange, Renewal
from shoal.graph.redis.client import Batching, Nodes, Script, keys_of, shards_of
from shoal.tasks import cancel

_log = logging.getLogger(__name__)

_PREFIX = "s"
_BATCH = 250
_RETRY_SECONDS = 0.5
_PENDING_OBJECTS = 20_000
"""Changed objects remembered individually while Redis cannot be reached; beyond, every object of a shard counts as changed."""
_REPORT_PAGE = 1_000
_TOKEN_BYTES = 8
_VERSION_BYTES = 16
_HISTORY_BYTES = 16
_SETTLING_SECONDS = 5.0

_READ = Script.load(__package__, "versions.read", common="marks")
_BEGIN = Script.load(__package__, "versions.begin", common="marks")
_END = Script.load(__package__, "versions.end", common="marks", grows=False)


class _Change(NamedTuple):
    """A change of several objects, and the random token with which they are marked as changing.

    `before` has the previous version token of each object that no other process is changing. `made`: whether the objects were
    changed.
    """

    ids: Sequence[int]
    token: bytes
    before: Mapping[int, bytes] = {}
    reading: bool = False
    made: bool = True


class RedisVersionTokens:
    """Version tokens that expire after a day, and change marks that expire after 30 seconds: a commit must not take longer.

    Tokens of a server that was restarted or replaced are not used before `settling_seconds` have passed.
    """

    def __init__(self, nodes: Nodes, *, settling_seconds: float = _SETTLING_SECONDS) -> None:
        self._nodes = nodes
        self._settling_seconds = settling_seconds
        # The replication id that the server of each shard last reported (`history`), and the time from which the version tokens
        # with a new replication id are valid.
        self._histories = np.zeros(SHARDS, f"S{_HISTORY_BYTES}")
        self._counts_from: dict[bytes, float] = {}
        self._reading = Batching("versions.read", self._read)
        self._beginning = Batching("versions.begin", self._begin)
        self._ending = Batching("versions.end", self._end)
        # The objects whose change is committed but could not be reported, with the token of the last change. Beyond
        # `_PENDING_OBJECTS` objects, only their shards are stored.
        self._pending: dict[int, bytes] = {}
        self._pending_shards: dict[int, bytes] = {}
        self._reporting: asyncio.Task[None] | None = None

    async def read(self, ids: Sequence[int]) -> dict[int, bytes]:
        return await self._reading.ask(ids) if ids else {}

    async def begin(self, ids: Sequence[int], *, reading: bool = False) -> _Change:
        change = _Change(ids, secrets.token_bytes(_TOKEN_BYTES), reading=reading)
        return change._replace(before=await self._beginning.ask(change)) if ids else change

    async def end(self, ids: Sequence[int], begun: MarkedChange | None, *, changed: bool = True) -> dict[int, Renewal]:
        if not ids or (begun is None and not changed):
            return {}
        change = begun if isinstance(begun, _Change) else _Change(ids, secrets.token_bytes(_TOKEN_BYTES))
        change = change._replace(made=changed)
        try:
            return await self._ending.ask(change)
        except Unavailable:
            self._defer(change)
            return {}

    async def _read(self, asked: list[Sequence[int]]) -> list[dict[int, bytes]]:
        every = np.unique(np.array([id_ for ids in asked for id_ in ids], np.int64))
        keys = keys_of(_PREFIX, every)
        new = secrets.token_bytes(_VERSION_BYTES)
        parts = await self._nodes.each(_READ, shards_of(every), lambda at: (keys[at].tobytes(), new), batch=_BATCH)
        found: dict[int, bytes] = {}
        for part in parts:
            known = {id_: version for id_, version in zip(every[part.at].tolist(), part.result, strict=True) if version}
            if known and self._settled(next(iter(known.values()))[:_HISTORY_BYTES], shards_of(every[part.at])):
                found.update(known)
        return [{id_: found[id_] for id_ in ids if id_ in found} for ids in asked]

    def _settled(self, history: bytes, shards: NDArray[np.int64]) -> bool:
        """Return whether version tokens with this history (replication id) may be used yet.

        Records it as the history of the servers of these shards.
        """
        before = self._histories[shards]
        if ((before != b"") & (before != history)).any() and history not in self._counts_from:
            self._counts_from[history] = time.monotonic() + self._settling_seconds
        self._histories[shards] = history
        return self._counts_from.get(history, 0.0) <= time.monotonic()

    async def _begin(self, changes: list[_Change]) -> list[dict[int, bytes]]:
        new = secrets.token_bytes(_VERSION_BYTES)
        reading = [b"1" if change.reading else b"0" for change in changes for _ in change.ids]
        results = await self._run(_BEGIN, changes, reading, new)
        return [
            {
                id_: version
                for id_, version in found.items()
                if version is not None and (not change.reading or self._settled_at(id_, version))
            }
            for change, found in zip(changes, results, strict=True)
        ]

    def _settled_at(self, id_: int, version: bytes) -> bool:
        return self._settled(version[:_HISTORY_BYTES], shards_of(np.array([id_], np.int64)))

    async def _end(self, changes: list[_Change]) -> list[dict[int, Renewal]]:
        results = await self._run(_END, changes, _versions_after(changes))
        renewed = [
            {
                id_: Renewal(before, after)
                for id_, before in change.before.items()
                if (after := found.get(id_)) and before[:_HISTORY_BYTES] in {b"", after[:_HISTORY_BYTES]}
            }
            for change, found in zip(changes, results, strict=True)
        ]
        by_history: dict[bytes, list[int]] = {}
        for answer in renewed:
            for id_, versions in answer.items():
                by_history.setdefault(versions.after[:_HISTORY_BYTES], []).append(id_)
        count = {
            history for history, ids in by_history.items() if self._settled(history, shards_of(np.array(ids, np.int64)))
        }
        return [
            {id_: versions for id_, versions in answer.items() if versions.after[:_HISTORY_BYTES] in count}
            for answer in renewed
        ]

    async def _run(
        self, script: Script, changes: list[_Change], words: Sequence[bytes], *more: bytes
    ) -> list[dict[int, bytes | None]]:
        every = np.array([id_ for change in changes for id_ in change.ids], np.int64)
        keys = keys_of(_PREFIX, every)
        tokens = [change.token for change in changes for _ in change.ids]

        def arguments(at: NDArray[np.intp]) -> tuple[bytes, ...]:
            rows = at.tolist()
            own, sent = [tokens[index] for index in rows], [words[index] for index in rows]
            return keys[at].tobytes(), b"".join(own), b"".join(sent), *more

        results: list[bytes | None] = [None] * len(every)
        for part in await self._nodes.each(script, shards_of(every), arguments, batch=_BATCH):
            for at, answer in zip(part.at.tolist(), part.result, strict=True):
                # None means that another server has this key: the response of that server is in another element.
                if answer is not None:
                    results[at] = answer
        answers = iter(results)
        return [{id_: next(answers) for id_ in change.ids} for change in changes]

    def _defer(self, change: _Change) -> None:
        for id_ in change.ids:
            if id_ in self._pending or len(self._pending) < _PENDING_OBJECTS:
                self._pending[id_] = change.token
            else:
                self._pending_shards[shard_of(id_)] = change.token
        if self._reporting is None:
            _log.warning(
                "Redis is unreachable: this process will replace the version tokens of changed objects after reconnecting"
            )
            self._reporting = asyncio.ensure_future(self._retry())

    async def _retry(self) -> None:
        while self._pending or self._pending_shards:
            await asyncio.sleep(_RETRY_SECONDS)
            with contextlib.suppress(Unavailable):
                await self._report_pending()
        self._reporting = None
        _log.info("Redis is reachable again: the version tokens of all changed objects are replaced")

    async def _report_pending(self) -> None:
        """Report to each reachable Redis server the changes of objects that could not be reported earlier.

        Raises `Unavailable` if no server is known.
        """
        ids = np.fromiter(self._pending, np.int64, len(self._pending))
        shards = np.fromiter(self._pending_shards, np.int64, len(self._pending_shards))
        sent = [self._report_objects(ids[at].tolist()) for at in await self._nodes.by_server(shards_of(ids))]
        sent += [self._report_shards(shards[at]) for at in await self._nodes.by_server(shards)]
        for outcome in await asyncio.gather(*sent, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, Unavailable):
                raise outcome

    async def _report_objects(self, ids: list[int]) -> None:
        """Report changes of objects on one Redis server, in batches. Raises `Unavailable` if the server does not answer."""
        for first in range(0, len(ids), _REPORT_PAGE):
            page = {id_: self._pending[id_] for id_ in ids[first : first + _REPORT_PAGE]}
            changes = [_Change((id_,), token) for id_, token in page.items()]
            await self._run(_END, changes, _versions_after(changes))
            _forget(self._pending, page)

    async def _report_shards(self, shards: NDArray[np.int64]) -> None:
        page = {shard: self._pending_shards[shard] for shard in shards.tolist()}
        token = secrets.token_bytes(_TOKEN_BYTES)
        async for ids in self._nodes.ids(_PREFIX, shards):
            changes = [_Change(ids.tolist(), token)]
            await self._run(_END, changes, _versions_after(changes))
        _forget(self._pending_shards, page)

    async def close(self) -> None:
        for batching in (self._reading, self._beginning, self._ending):
            await batching.close()
        if self._reporting is not None:
            await cancel(self._reporting)
            with contextlib.suppress(Unavailable):
                await self._report_pending()


def _forget(unsent: dict[int, bytes], sent: Mapping[int, bytes]) -> None:
    """Remove the reported changes (`sent`) from `unsent`, except changes that were recorded again during the report."""
    for key, token in sent.items():
        if unsent.get(key) is token:
            del unsent[key]


def _versions_after(changes: list[_Change]) -> list[bytes]:
    """Return a version token for each object of these changes: a new one, or the previous one if nothing was changed."""
    new = secrets.token_bytes(_VERSION_BYTES)
    return [
        new if change.made else change.before.get(id_, b"")[_HISTORY_BYTES:] or new
        for change in changes
        for id_ in change.ids
    ]
