"""Calls of library methods between processes that share a store: the owner executes them on its network, others send them.

Before a call changes the store, the owner announces this to the caller (`graph.contract.pre_commit_hook`), and makes no change that
it could not announce.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from shoal.app.network import Network
from shoal.core.errors import InvalidInput, TooLarge
from shoal.graph.contract import pre_commit_hook
from shoal.library.remote_methods import Method, Nouns, Values, handle_for
from shoal.multiprocess import rpc
from shoal.multiprocess.rpc import Client, Service
from shoal.settings import Settings

SILENCE_SECONDS = 20.0
"""Seconds without a message after which an owner counts as hung; long enough for a busy machine."""
_GRACE_SECONDS = 10.0
"""Seconds that the shutdown waits for calls of other processes."""
_ARGUMENT_BYTES = 8 << 20
"""Maximum bytes of a call, not counting the two files of an upload."""


class RemoteCall(msgspec.Struct, array_like=True):
    """A call of a library method in another process, such as `create` of the noun (library object) `member.lists`."""

    noun: str
    method: str
    member: tuple[int, str] | None
    args: list[Any]
    kwargs: dict[str, Any]


_encode = msgspec.msgpack.Encoder().encode
_decode_call = msgspec.msgpack.Decoder(RemoteCall).decode
_decode_plain = msgspec.msgpack.Decoder(strict=True).decode


class OwnedNetwork:
    """The network that this process owns, with the methods that other processes may call, by name."""

    def __init__(self, shoal: Any, network: Network, nouns: Nouns, values: Values) -> None:
        self.shoal = shoal
        self._network = network
        self._nouns = nouns
        self._values = values.with_handles(self._handle)

    def _handle(self, id_: int, name: str) -> object:
        return handle_for(self._network, id_, name)

    def target(self, noun: str, member: tuple[int, str] | None) -> Any:
        """Return the library object that a noun names, such as `member.lists` (the lists of the member) or `shoal.tags`."""
        root, _, attribute = noun.partition(".")
        thing = self.shoal if root == "shoal" else self._handle(*(member or (0, "")))
        return getattr(thing, attribute) if attribute else thing

    def serving(self, path: Path) -> AbstractAsyncContextManager[None]:
        """Answer calls on the socket at `path` until the block ends. Call it only while holding the store's lock."""
        service = Service(
            self._answer,
            self._items,
            fingerprint=self._values.fingerprint,
            most=_most_bytes(self._network.settings),
        )
        return rpc.serving(path, service, grace=_GRACE_SECONDS)

    async def _answer(self, body: msgspec.Raw, call: rpc.ServedCall) -> bytes:
        method, result = self._begun(body, call)
        answer = await result
        return _encode(self._values.plain(answer) if method.decoder is None else answer)

    async def _items(self, body: msgspec.Raw, call: rpc.ServedCall) -> AsyncGenerator[bytes, None]:
        _, items = self._begun(body, call)
        async with aclosing(items):
            async for item in items:
                yield _encode(self._values.plain(item))

    def _begun(self, body: msgspec.Raw, call: rpc.ServedCall) -> tuple[Method, Any]:
        remote = _decode_call(body)
        method = self._nouns.get(remote.noun, {}).get(remote.method)
        if method is None:
            raise InvalidInput(f"unknown method {remote.noun}.{remote.method}")
        pre_commit_hook.set(call.begin)
        result = method.function(
            self.target(remote.noun, remote.member),
            *map(self._values.made, remote.args),
            **{name: self._values.made(value) for name, value in remote.kwargs.items()},
        )
        return method, result


def _most_bytes(settings: Settings) -> int:
    return 2 * max(settings.max_upload_bytes, settings.max_video_bytes) + _ARGUMENT_BYTES


class Call(NamedTuple):
    """A method call that the application made on a library object."""

    noun: str
    name: str
    method: Method
    member: tuple[int, str] | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class RemoteNetwork:
    """The network owned by another process. Calls raise `PeerGone` if that process ends before it answers."""

    def __init__(self, client: Client, values: Values) -> None:
        self.client = client
        self._values = values

    async def call(self, call: Call) -> Any:
        """Run a method in the owner process; return its result, or raise its error."""
        answer = await self.client.call(self._encoded(call))
        if call.method.decoder is not None:
            return call.method.decoder.decode(answer)
        return self._values.made(_decode_plain(answer))

    async def stream(self, call: Call) -> AsyncGenerator[Any, None]:
        """Run a streaming method in the owner process, and yield its items as they are requested."""
        async with aclosing(self.client.stream(self._encoded(call))) as items:
            async for item in items:
                yield self._values.made(_decode_plain(item))

    def _encoded(self, call: Call) -> bytes:
        plain = self._values.plain
        kwargs = {name: plain(value) for name, value in call.kwargs.items()}
        try:
            return _encode(RemoteCall(call.noun, call.name, call.member, list(map(plain, call.args)), kwargs))
        except OverflowError as error:
            raise TooLarge("a number has more than 64 bits") from error
