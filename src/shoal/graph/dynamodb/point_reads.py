"""Point reads of a table, joined: reads that start together are sent as one request of up to 100 keys.

A read is sent as soon as two iterations of the event loop pass in which no other read starts. So reads that `asyncio.gather` starts
are joined, and so are reads of different requests of members. An iteration takes microseconds, and a request milliseconds. A key is
sent once, however many callers read it. The response to a caller is never older than its call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from shoal.core.errors import Unavailable
from shoal.graph.dynamodb.items import Item, ItemKey, address_of
from shoal.graph.resolve import copied
from shoal.observability.tracing import Record, for_many, recording

READ_AT_ONCE = 100
"""Maximum number of items in one read request of the service."""
_QUIET_ITERATIONS = 2
_MOST_ITERATIONS = 8

Found = dict[ItemKey, Item]
Read = Callable[[Sequence[ItemKey]], Awaitable[list[Item]]]


class _Request:
    def __init__(self) -> None:
        self.keys: list[ItemKey] = []
        self.callers: list[tuple[Sequence[ItemKey], asyncio.Future[Found], Record | None]] = []


class PointReads:
    """Joins concurrent point reads. `read` sends one request, and returns the items that exist."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._open: list[_Request] = []
        """Requests that have not been sent yet. Only the last one has room for more keys."""
        self._request_of: dict[ItemKey, _Request] = {}
        self._quiet = self._iterations = 0
        self._sent: set[asyncio.Task[None]] = set()

    async def get(self, keys: Sequence[ItemKey]) -> list[Item]:
        """Return the items that exist at these keys, in no particular order."""
        if not keys:
            return []
        parts: dict[_Request, list[ItemKey]] = {}
        if not self._open:
            self._iterations = 0
            asyncio.get_running_loop().call_soon(self._pass)
        self._quiet = 0
        for key in dict.fromkeys(keys):
            parts.setdefault(self._place(key), []).append(key)
        found = [self._wait(request, part) for request, part in parts.items()]
        answers = [await found[0]] if len(found) == 1 else await asyncio.gather(*found)
        return [item for answer in answers for item in answer.values()]

    def _place(self, key: ItemKey) -> _Request:
        request = self._request_of.get(key)
        if request is None:
            if not self._open or len(self._open[-1].keys) == READ_AT_ONCE:
                self._open.append(_Request())
            request = self._request_of[key] = self._open[-1]
            request.keys.append(key)
        return request

    def _wait(self, request: _Request, keys: Sequence[ItemKey]) -> asyncio.Future[Found]:
        # Each caller has its own future, so that its cancellation does not affect the others.
        future: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        request.callers.append((keys, future, recording()))
        return future

    def _pass(self) -> None:
        """Send the waiting requests if no read joined them in the last event loop iterations. Otherwise check again later."""
        self._quiet += 1
        self._iterations += 1
        if self._quiet <= _QUIET_ITERATIONS and self._iterations < _MOST_ITERATIONS:
            asyncio.get_running_loop().call_soon(self._pass)
            return
        requests, self._open = self._open, []
        self._request_of.clear()
        for request in requests:
            self._start(request)

    def _start(self, request: _Request) -> None:
        with for_many():
            task = asyncio.ensure_future(self._send(request))
        self._sent.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._sent.discard(task)
        if not task.cancelled():
            # Mark the exception as retrieved, because the callers have received it.
            task.exception()

    async def _send(self, request: _Request) -> None:
        began = time.perf_counter()
        try:
            items = await self._read(request.keys)
        except Exception as error:  # noqa: BLE001  # passed on to the callers
            self._fail(request, error)
            return
        except BaseException as error:
            # The process or this task is ending. Pass the error to the callers, which would otherwise wait forever.
            for _, future, _ in request.callers:
                if not future.done():
                    future.set_exception(error)
            raise
        finally:
            for record in {id(record): record for _, _, record in request.callers if record is not None}.values():
                record.add("dynamodb", "batch_get_item", began)
        found = {address_of(item): item for item in items}
        for keys, future, _ in request.callers:
            if not future.done():
                future.set_result({key: found[key] for key in keys if key in found})

    def _fail(self, request: _Request, error: Exception) -> None:
        """Raise the error for the callers of a request.

        If the keys of one caller may be the cause, send a request for each caller instead.
        """
        callers = [caller for caller in request.callers if not caller[1].done()]
        for caller in callers:
            if len(callers) == 1:
                caller[1].set_exception(error)
            elif isinstance(error, Unavailable):
                caller[1].set_exception(copied(error))
            else:
                alone = _Request()
                alone.keys, alone.callers = list(caller[0]), [caller]
                self._start(alone)

    async def close(self) -> None:
        while self._sent:
            await asyncio.wait(self._sent)
