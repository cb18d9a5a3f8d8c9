"""The control socket of a running server: operations, refusals and disconnects."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from shoal import Shoal
from shoal.admin import control
from shoal.admin.control import ask, listening
from shoal.admin.operations import AddMember, AskStatus, Check, CheckThere, SetRole, Status
from shoal.admin.report import Progress
from shoal.core.errors import OutcomeUnknown, ShoalError, TooLarge, Unavailable
from shoal.core.model import Role
from shoal.multiprocess import link
from shoal.multiprocess.link import NotListening
from shoal.multiprocess.rpc import PROTOCOL, Hello, connect
from tests.async_runner import TurnClock, in_loop, run


@pytest.fixture
def door(tmp_path: Path) -> Path:
    """The path of a control socket."""
    return tmp_path / "s.sock"


@asynccontextmanager
async def stand_in(door: Path, answer: Callable[[socket.socket], Awaitable[None]]) -> AsyncIterator[None]:
    """A server that accepts a connection and only calls `answer`."""
    with link.listen(door, 8) as listener:

        async def accept() -> None:
            sock, _ = await asyncio.get_running_loop().sock_accept(listener)
            with sock:
                await answer(sock)

        accepting = asyncio.create_task(accept())
        yield
        accepting.cancel()
        await asyncio.gather(accepting, return_exceptions=True)


def greet(sock: socket.socket) -> None:
    sock.send(link.frame(Hello(PROTOCOL, "", 1 << 20), 1 << 20))


@in_loop
async def test_control_socket_works_under_long_path_and_replaces_stale_file(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 20) / ("deeper" * 20)
    folder.mkdir(parents=True)
    door = folder / "shoal.db.sock"
    async with Shoal.open("memory://") as opened:
        await opened.register("ann")
        with pytest.raises(NotListening):
            await ask(door, AskStatus())
        door.write_text("left behind by a server that was killed")
        async with listening(opened.network, door):
            assert (await ask(door, Check())).clean
        with pytest.raises(NotListening):
            await ask(door, Check())


@in_loop
async def test_control_socket_caller_gets_error_with_message_of_server(door: Path) -> None:
    async with Shoal.open("memory://") as opened, listening(opened.network, door):
        with pytest.raises(ShoalError, match="no member 'nobody'"):
            await ask(door, CheckThere("nobody"))
        with pytest.raises(ShoalError, match="password: 8 to 1024 characters"):
            await ask(door, AddMember("ann", "short"))
        assert (await ask(door, AddMember("ann", "a long password"))).name == "ann"
        await ask(door, SetRole("ann", Role.ADMIN))
        assert (await opened.member("ann")).name == "ann"


@in_loop
async def test_control_socket_unknown_operation_is_refused(door: Path) -> None:
    async with Shoal.open("memory://") as opened, listening(opened.network, door):
        client = await connect(door)
        for request in (
            "hello",
            {"operation": "Shout"},
            {"operation": "SetHidden", "post_id": "x", "hidden": True},
            {"operation": "Operation"},
        ):
            with pytest.raises(ShoalError, match="does not know this operation"):
                await client.call(msgspec.msgpack.encode(request))
        with pytest.raises(TooLarge):
            await client.call(msgspec.msgpack.encode(bytes(1 << 22)))
        await client.close()
        assert (await ask(door, AskStatus())).pid


@in_loop
async def test_control_socket_concurrent_operations_are_limited(door: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_MOST_OPERATIONS", 1)
    async with Shoal.open("memory://") as opened:
        begun = _never_settles(opened)
        async with listening(opened.network, door):
            first = asyncio.create_task(ask(door, Check()))
            await begun.wait()
            with pytest.raises(ShoalError, match="already running"):
                await ask(door, AskStatus())
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)


@in_loop
async def test_control_socket_second_concurrent_check_is_refused(door: Path) -> None:
    async with Shoal.open("memory://") as opened:
        begun = _never_settles(opened)
        async with listening(opened.network, door):
            first = asyncio.create_task(ask(door, Check()))
            await begun.wait()
            with pytest.raises(ShoalError, match="another check, import or replay is running"):
                await ask(door, Check())
            assert (await ask(door, AskStatus())).pid
        with pytest.raises(Unavailable):
            await first


@in_loop
async def test_control_socket_client_disconnect_cancels_its_operation(door: Path) -> None:
    async with Shoal.open("memory://") as opened:
        begun = _never_settles(opened)
        async with listening(opened.network, door):
            first = asyncio.create_task(ask(door, Check()))
            await begun.wait()
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            begun.clear()
            second = asyncio.create_task(_until_begun(door))
            await begun.wait()
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)


async def _until_begun(door: Path) -> None:
    while True:
        try:
            await ask(door, Check())
        except ShoalError:
            await asyncio.sleep(0.01)


def _never_settles(opened: Shoal) -> asyncio.Event:
    """Make the initial wait of a check never finish; the returned event is set when a check starts."""
    begun = asyncio.Event()

    async def drain(patience: float = 0, *, busy: bool = False) -> None:
        begun.set()
        await asyncio.sleep(3_600)

    opened.network.runner.drain = drain  # type: ignore[method-assign]
    return begun


@in_loop
async def test_control_socket_reports_progress_of_running_operation(
    door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def carry_out(_self: object, _network: object, progress: Progress) -> Status:
        progress("posts", 1, 2)
        progress("posts", 2, 2)
        return Status(1, 0, 0, 0)

    monkeypatch.setattr(AskStatus, "carry_out", carry_out)
    reports: list[tuple[str, int, int]] = []
    async with Shoal.open("memory://") as opened, listening(opened.network, door):
        await ask(door, AskStatus(), lambda *report: reports.append(report))
    assert reports == [("posts", 1, 2), ("posts", 2, 2)]


def test_control_socket_unresponsive_server_times_out(door: Path) -> None:
    async def nothing_more(sock: socket.socket) -> None:
        greet(sock)
        await asyncio.Event().wait()

    async def story() -> None:
        async with stand_in(door, nothing_more):
            with pytest.raises(OutcomeUnknown, match="has been silent for 0 s"):
                await ask(door, Check(), silence=0.2)

    # A pause of the machine before the request must not count as silence.
    run(story(), TurnClock)


@in_loop
async def test_control_socket_server_exit_before_response_raises_outcome_unknown(door: Path) -> None:
    async def hang_up(sock: socket.socket) -> None:
        greet(sock)
        await asyncio.get_running_loop().sock_recv(sock, 1)

    async with stand_in(door, hang_up):
        with pytest.raises(OutcomeUnknown, match="ended before it answered"):
            await ask(door, Check())


@in_loop
async def test_control_socket_server_of_older_protocol_is_reported_with_advice_to_restart_it(door: Path) -> None:
    async def answer(sock: socket.socket) -> None:
        sock.send(b'{"error":"the server does not know this operation"}\n')
        await asyncio.get_running_loop().sock_recv(sock, 1)

    async with stand_in(door, answer):
        with pytest.raises(Unavailable, match="another version of Shoal: start it again"):
            await ask(door, AskStatus())
