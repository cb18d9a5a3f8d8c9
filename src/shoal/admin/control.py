"""Control socket of a running server: administrative operations (`admin/contract.py`) over `multiprocess.rpc`.

Each connection carries one operation. Closing the connection cancels it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.operations import AnyOperation
from shoal.admin.report import Progress, nothing
from shoal.core.errors import OutcomeUnknown, ShoalError, in_words
from shoal.multiprocess.rpc import SILENCE_SECONDS, PeerGone, ServedCall, Service, connect, serving

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MOST_OPERATIONS = 16
_PROGRESS_SECONDS = 0.2
_INTERNAL = "an internal error occurred; see the server's log"
_UNKNOWN = "the server runs another version and does not know this operation: restart it"
_BUSY = "another check, import or replay is running: wait for it to finish"


@asynccontextmanager
async def listening(network: AnyNetwork, path: Path) -> AsyncIterator[None]:
    """Serve the control socket during the block.

    The caller must hold the lock of the store, because an existing socket is replaced.
    """
    async with serving(path, Service(_Operations(network).answer)):
        yield


async def ask(
    path: Path, operation: Operation[T], progress: Progress = nothing, *, silence: float = SILENCE_SECONDS
) -> T:
    """Run an operation on the server at `path`.

    Raises `NotListening` if no server is running, `Unavailable` if the server cannot be reached, and `OutcomeUnknown`
    if the connection breaks or the server sends nothing for `silence` seconds. If the operation failed on the server,
    its error is raised.
    """
    client = await connect(path, silence=silence)
    try:
        answer = await client.call(
            msgspec.msgpack.encode(operation, enc_hook=_encode_path),
            lambda notice: progress(*msgspec.msgpack.decode(notice, type=tuple[str, int, int])),
        )
    except PeerGone as gone:
        raise OutcomeUnknown(str(gone)) from None
    finally:
        await client.close()
    return cast("T", msgspec.msgpack.decode(answer, type=operation.answer))


class _Operations:
    def __init__(self, network: AnyNetwork) -> None:
        self._network = network
        self._long = asyncio.Lock()
        self._running = 0

    async def answer(self, body: msgspec.Raw, call: ServedCall) -> bytes:
        try:
            operation: Operation[object] = msgspec.msgpack.decode(body, type=AnyOperation, dec_hook=_decode_path)
        except (msgspec.DecodeError, ValueError):
            raise ShoalError(_UNKNOWN) from None
        if self._running >= _MOST_OPERATIONS:
            raise ShoalError(f"{_MOST_OPERATIONS} commands are already running: try again later")
        self._running += 1
        try:
            return msgspec.msgpack.encode(await self._carry_out(operation, _ProgressReports(call)))
        except ShoalError:
            raise
        except OSError as error:
            raise ShoalError(in_words(error)) from error
        except Exception as error:
            _log.exception("operator request failed")
            raise ShoalError(_INTERNAL) from error
        finally:
            self._running -= 1

    async def _carry_out(self, operation: Operation[object], progress: Progress) -> object:
        if not operation.alone:
            return await operation.carry_out(self._network, progress)
        if self._long.locked():
            raise ShoalError(_BUSY)
        async with self._long:
            return await operation.carry_out(self._network, progress)


class _ProgressReports:
    def __init__(self, call: ServedCall) -> None:
        self._call = call
        self._sent_at = 0.0

    def __call__(self, phase: str, done: int, total: int) -> None:
        if time.monotonic() - self._sent_at > _PROGRESS_SECONDS or done == total:
            self._sent_at = time.monotonic()
            self._call.notify(msgspec.msgpack.encode((phase, done, total)))


def _encode_path(value: object) -> str:
    """Encode a path as text. MessagePack has no type for paths."""
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be encoded")


def _decode_path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"{kind.__name__} cannot be decoded")
