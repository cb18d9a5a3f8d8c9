"""RPC between processes on a single host: refusals, and the errors of callers when a peer fails."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sized
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from shoal.core.errors import InvalidInput, TooLarge, Unavailable
from shoal.multiprocess import link, rpc
from shoal.multiprocess.link import LinkClosed, NotListening
from shoal.multiprocess.rpc import (
    Cancel,
    Client,
    Hello,
    Passed,
    PeerGone,
    Request,
    ServedCall,
    Service,
    connect,
    serving,
)
from tests.async_runner import TurnClock, eventually, in_loop, run

_NIL = b"\xc0"


class Server:
    """An echo service. Requests wait while `held` is cleared."""

    def __init__(self) -> None:
        self.held = asyncio.Event()
        self.held.set()
        self.running = 0

    async def answer(self, body: msgspec.Raw, call: ServedCall) -> bytes:
        self.running += 1
        try:
            name = msgspec.msgpack.decode(body)
            if name == "begin":
                await call.begin()
            if name == "refuse":
                raise InvalidInput("no", field="name")
            if name == "fail":
                raise RuntimeError("a secret")
            await self.held.wait()
        finally:
            self.running -= 1
        return bytes(body)

    async def items(self, body: msgspec.Raw, _call: ServedCall) -> AsyncGenerator[bytes, None]:
        for number in range(msgspec.msgpack.decode(body, type=int)):
            yield msgspec.msgpack.encode(number)

    async def count(self) -> int:
        return self.running


def encoded(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


@asynccontextmanager
async def connected(path: Path, grace: float = 0.0) -> AsyncIterator[tuple[Server, Client]]:
    server = Server()
    async with serving(path, Service(server.answer, server.items), grace=grace):
        client = await connect(path)
        try:
            yield server, client
        finally:
            await client.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.sock"


@in_loop
async def test_rpc_call_returns_answer_or_raises_server_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[object] = []
    monkeypatch.setattr(rpc._log, "error", lambda *_, **values: logged.append(values["exc_info"]))
    async with connected(path) as (_, client):
        assert msgspec.msgpack.decode(await client.call(encoded("x"))) == "x"
        with pytest.raises(InvalidInput, match="no") as refused:
            await client.call(encoded("refuse"))
        assert refused.value.field == "name"
        with pytest.raises(Exception, match="its log says which") as failed:
            await client.call(encoded("fail"))
        assert "secret" not in str(failed.value)
        assert len(logged) == 1
        async with aclosing(client.stream(encoded(3))) as items:
            assert [msgspec.msgpack.decode(item) async for item in items] == [0, 1, 2]


@in_loop
async def test_rpc_oversized_request_is_refused_before_sending(path: Path) -> None:
    async with connected(path) as (_, client):
        with pytest.raises(TooLarge, match="at most 1048576 bytes"):
            await client.call(encoded(bytes(1 << 20)))
        assert await client.call(encoded("x"))


@pytest.mark.parametrize(
    "noise",
    [
        (1 << 21).to_bytes(4, "big"),
        b"\0\0\0\1\xc1",
        b"\0\0\0\3\x93\x01\x02",
        b'{"operation":"Check"}\n',
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["oversized frame", "no MessagePack", "no message", "older protocol", "HTTP"],
)
@in_loop
async def test_rpc_malformed_frame_closes_only_its_connection(path: Path, noise: bytes) -> None:
    async with connected(path) as (_, client):
        other = link.connect(path)
        other.setblocking(True)
        other.settimeout(60)
        with other:
            await asyncio.to_thread(other.sendall, noise)
            received = await asyncio.to_thread(_read_all, other)
        assert b"hello" in received
        assert await client.call(encoded("x"))


def _read_all(sock: socket.socket) -> bytes:
    data = b""
    while chunk := sock.recv(1 << 16):
        data += chunk
    return data


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (Hello(rpc.PROTOCOL + 1, "", 1 << 20), "another version of Shoal"),
        (Hello(rpc.PROTOCOL, "of other methods", 1 << 20), "another version of Shoal"),
        (rpc.Heartbeat(), "another version of Shoal"),
        (Cancel(1), "another version of Shoal"),
        (rpc.Failure(0, ["Unavailable"], "64 processes are connected", {}), "64 processes"),
    ],
    ids=["protocol", "fingerprint", "no hello", "not from a server", "refusal"],
)
@in_loop
async def test_rpc_client_refuses_server_of_another_shoal_version_with_message(
    path: Path, first: msgspec.Struct, message: str
) -> None:
    with link.listen(path, 1) as listener:
        connecting = asyncio.create_task(connect(path))
        sock, _ = await asyncio.get_running_loop().sock_accept(listener)
        with sock:
            sock.send(link.frame(first, 1 << 20))
            with pytest.raises(Unavailable, match=message):
                await connecting


@in_loop
async def test_rpc_server_without_greeting_times_out(path: Path) -> None:
    with link.listen(path, 1), pytest.raises(PeerGone, match="silent"):
        await connect(path, silence=0.1)


@in_loop
async def test_rpc_connect_without_server_raises_not_listening(path: Path) -> None:
    with pytest.raises(NotListening):
        await connect(path)
    _write(path)
    with pytest.raises(NotListening):
        await connect(path)
    with pytest.raises(NotListening):
        await connect(path / "below a file")


def _write(path: Path) -> None:
    path.write_text("a file")


@in_loop
async def test_rpc_socket_is_private_from_creation_and_removed_on_exit(path: Path) -> None:
    umask = os.umask(0)
    try:
        async with connected(path):
            assert _mode(path) == 0o600
    finally:
        os.umask(umask)
    assert _mode(path) is None


def _mode(path: Path) -> int | None:
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else None


@in_loop
async def test_rpc_client_refuses_server_of_another_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(path):
        monkeypatch.setattr(os, "geteuid", lambda: 1_234)
        monkeypatch.setattr(link, "user_of", lambda _: 4_321)
        with pytest.raises(Unavailable, match="belongs to another user"):
            await connect(path)


@in_loop
async def test_rpc_server_refuses_client_of_another_user_regardless_of_file_mode(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(path) as (_, client):
        os.chmod(path, 0o666)  # noqa: PTH101, S103
        other = link.connect(path)
        with other, monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: 1_234)
            patch.setattr(link, "user_of", lambda _: 4_321)
            assert await asyncio.get_running_loop().sock_recv(other, 100) == b""
        assert await client.call(encoded("x"))


@in_loop
async def test_rpc_socket_without_permission_reports_store_of_another_user(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(link, "at", refuse)
    with pytest.raises(Unavailable, match="the store belongs to another user"):
        await connect(path)


@in_loop
async def test_rpc_connections_beyond_limit_are_refused(path: Path) -> None:
    async with serving(path, Service(Server().answer, processes=1)):
        first = await connect(path)
        with pytest.raises(Unavailable, match="1 processes are already connected"):
            await connect(path)
        await first.close()
        while True:
            try:
                second = await connect(path)
            except Unavailable:
                continue
            break
        await second.close()


@in_loop
async def test_rpc_calls_beyond_client_limit_wait_and_beyond_server_limit_are_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "_MOST_SENT_CALLS", 3)
    async with connected(path) as (server, client):
        server.held.clear()
        calls = [asyncio.create_task(client.call(encoded("x"))) for _ in range(5)]
        await eventually(server.count, 3)
        monkeypatch.setattr(rpc, "_MOST_CALLS", 3)
        other = await connect(path)
        for _ in range(3):
            other.tell(encoded("x"))
        with pytest.raises(Unavailable, match="too many calls"):
            await other.call(encoded("x"))
        server.held.set()
        assert len(await asyncio.gather(*calls)) == 5
        await other.close()


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_rpc_full_send_queue_is_refused_and_leaks_no_descriptor(path: Path) -> None:
    before = _descriptors()

    async def main() -> None:
        with link.listen(path, 1) as listener:
            connecting = asyncio.create_task(connect(path))
            sock, _ = await asyncio.get_running_loop().sock_accept(listener)
            with sock:
                sock.send(link.frame(Hello(rpc.PROTOCOL, "", 1 << 20), 1 << 20))
                client = await connecting
                ours, theirs = socket.socketpair()
                with ours, theirs, pytest.raises(Unavailable, match="does not read"):
                    _fill(client, ours.fileno())
                client.link.offer(Cancel(1))
                await client.close()
                with pytest.raises(LinkClosed):
                    client.tell(_NIL)
                with pytest.raises(PeerGone):
                    await client.call(_NIL)

    in_loop(main)()
    assert _descriptors() == before


def _fill(client: Client, descriptor: int) -> None:
    for _ in range(10_000):
        client.link.send(Passed(b"x" * 20_000), descriptor)


@in_loop
async def test_rpc_peer_that_does_not_read_is_disconnected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_STALL_SECONDS", 0.1)
    async with connected(path) as (_, client):
        for _ in range(100):
            client.link.send(Request(1, msgspec.Raw(encoded(bytes(1 << 19)))))
            if client.link._queue:
                break
        client.link._loop.remove_writer(client.link._sock)
        with pytest.raises(LinkClosed):
            await client.link.flushed()
        await client.ended


@in_loop
async def test_rpc_unclaimed_descriptor_is_closed(path: Path) -> None:
    before = _descriptors()
    async with connected(path) as (_, client):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            client.link.send(Passed(b"x"), ours.fileno())
            client.link.send(Request(1, msgspec.Raw(encoded("x"))), ours.fileno())
        assert await client.call(encoded("x"))
    assert _descriptors() == before


@in_loop
async def test_rpc_cancelled_call_is_cancelled_on_server(path: Path) -> None:
    async with connected(path) as (server, client):
        server.held.clear()
        call = asyncio.create_task(client.call(encoded("x")))
        await eventually(server.count, 1)
        call.cancel()
        await eventually(server.count, 0)
        with pytest.raises(asyncio.CancelledError):
            await call


@in_loop
async def test_rpc_client_disconnect_cancels_its_calls_before_they_begin(path: Path) -> None:
    begun: list[BaseException | None] = []
    received = asyncio.Event()

    async def answer(_body: msgspec.Raw, call: ServedCall) -> bytes:
        try:
            received.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                await call.begin()
            except LinkClosed as error:
                begun.append(error)
            raise
        return _NIL

    async with serving(path, Service(answer)):
        client = await connect(path)
        call = asyncio.create_task(client.call(_NIL))
        await received.wait()
        await client.close()
        with pytest.raises(PeerGone):
            await call
        await eventually(lambda: _count(begun), 1)


async def _count(of: Sized) -> int:
    return len(of)


@in_loop
async def test_rpc_server_shutdown_answers_running_calls_within_grace_period(path: Path) -> None:
    server = Server()
    async with serving(path, Service(server.answer), grace=10.0):
        client = await connect(path)
        server.held.clear()
        call = asyncio.create_task(client.call(encoded("x")))
        await eventually(server.count, 1)
        asyncio.get_running_loop().call_later(0.05, server.held.set)
    assert await call
    await client.close()


_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from shoal.multiprocess.rpc import Service, serving

async def answer(body, call):
    if "begin" in sys.argv:
        await call.begin()
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with serving(Path(sys.argv[1]), Service(answer)):
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("begin", [False, True])
@in_loop
async def test_rpc_call_to_killed_server_reports_whether_it_had_begun(path: Path, begin: bool) -> None:
    command = [sys.executable, "-c", _KILLED, str(path), *(["begin"] if begin else [])]
    with subprocess.Popen(command) as server:  # noqa: ASYNC220  # it starts before the loop has anything to do
        client = await _reached(lambda: connect(path))
        with pytest.raises(PeerGone, match="ended before it answered") as gone:
            await client.call(_NIL)
        assert gone.value.begun is begin
        await client.close()
        assert server.wait(60) == -signal.SIGKILL


async def _reached(connecting: Callable[[], object]) -> Client:
    deadline = time.monotonic() + 60
    while True:
        try:
            return await connecting()  # type: ignore[misc, no-any-return]
        except NotListening:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


def test_rpc_call_to_server_that_becomes_silent_is_reported_as_begun_and_closes_connection(path: Path) -> None:
    async def story() -> None:
        with link.listen(path, 1) as listener:
            connecting = asyncio.create_task(connect(path, silence=0.2))
            sock, _ = await asyncio.get_running_loop().sock_accept(listener)
            with sock:
                sock.send(link.frame(Hello(rpc.PROTOCOL, "", 1 << 20), 1 << 20))
                client = await connecting
                call = asyncio.create_task(client.call(_NIL))
                await asyncio.get_running_loop().sock_recv(sock, 1 << 20)
                sock.send(link.frame(rpc.Begun(1), 1 << 20))
                with pytest.raises(PeerGone, match="silent") as gone:
                    await call
                assert gone.value.begun
                with pytest.raises(BrokenPipeError):
                    sock.send(link.frame(rpc.Begun(1), 1 << 20))
                await client.close()

    # A pause of the machine must not count as silence.
    run(story(), TurnClock)


@in_loop
async def test_rpc_client_of_server_killed_during_answer_reports_call_as_begun(path: Path) -> None:
    with link.listen(path, 1) as listener:
        connecting = asyncio.create_task(connect(path))
        sock, _ = await asyncio.get_running_loop().sock_accept(listener)
        with sock:
            sock.send(link.frame(Hello(rpc.PROTOCOL, "", 1 << 20), 1 << 20))
            client = await connecting
            call = asyncio.create_task(client.call(_NIL))
            await asyncio.sleep(0.05)
            answer = link.frame(rpc.Response(1, msgspec.Raw(encoded("x" * 1_000))), 1 << 20)
            sock.send(link.frame(rpc.Begun(1), 1 << 20) + answer[:500])
        with pytest.raises(PeerGone, match="ended") as gone:
            await call
        assert gone.value.begun
        assert client.link.open is False
        await client.close()


@in_loop
async def test_rpc_client_killed_while_passing_connection_leaks_no_descriptor(path: Path) -> None:
    before = _descriptors()
    taken: list[bytes] = []

    def take(sock: socket.socket, data: bytes) -> None:
        sock.close()
        taken.append(data)

    async with serving(path, Service(Server().answer, take=take)):
        other = link.connect(path)
        ours, theirs = socket.socketpair()
        with other, ours, theirs:
            partial = link.frame(Passed(b"x" * 1_000), 1 << 20, attached=True)[:500]
            assert socket.send_fds(other, [partial], [ours.fileno()]) == 500
            assert theirs.send(b"x") == 1
            await asyncio.sleep(0.05)
        client = await connect(path)
        with pytest.raises(InvalidInput, match="streamed responses"):
            await anext(client.stream(_NIL))
        await client.close()
    assert taken == []
    assert _descriptors() == before


@in_loop
async def test_rpc_error_with_undecodable_file_name_reaches_caller(path: Path) -> None:
    async def answer(_body: msgspec.Raw, _call: ServedCall) -> bytes:
        raise InvalidInput("no file a\udcff")

    async with serving(path, Service(answer)):
        client = await connect(path)
        with pytest.raises(InvalidInput, match=r"no file a\\udcff"):
            await asyncio.wait_for(client.call(encoded("x")), 60)
        await client.close()


@in_loop
async def test_rpc_error_too_large_to_send_closes_connection(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(_body: msgspec.Raw, _call: ServedCall) -> bytes:
        raise InvalidInput("x" * 3_000_000)

    logged: list[str] = []
    monkeypatch.setattr(rpc._log, "exception", logged.append)
    async with serving(path, Service(answer)):
        client = await connect(path)
        with pytest.raises(PeerGone):
            await asyncio.wait_for(client.call(encoded("x")), 60)
        await client.close()
    assert logged == ["sending an error to another process failed"]


@in_loop
async def test_rpc_error_in_notice_handler_fails_only_its_own_call(path: Path) -> None:
    async def answer(body: msgspec.Raw, call: ServedCall) -> bytes:
        call.notify(encoded("half"))
        await call.peer.link.flushed()
        return bytes(body)

    def notice(_body: msgspec.Raw) -> None:
        raise BrokenPipeError("stderr is closed")

    async with serving(path, Service(answer)):
        client = await connect(path)
        with pytest.raises(BrokenPipeError, match="stderr is closed"):
            await client.call(encoded("x"), notice)
        assert msgspec.msgpack.decode(await client.call(encoded("y"))) == "y"
        await client.close()
