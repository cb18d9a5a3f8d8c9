"""The operator's way into a running server: what it carries out, what it refuses, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.running import in_loop

from shoal import Shoal
from shoal.admin import control
from shoal.admin.control import NoServer, ask, listening
from shoal.admin.operations import AddMember, AskStatus, Check, CheckThere, SetRole
from shoal.core.errors import ShoalError, Unavailable
from shoal.core.model import Role


@pytest.fixture
def door(tmp_path: Path) -> Path:
    """Where a server may listen."""
    return tmp_path / "s.sock"


@asynccontextmanager
async def stand_in(door: Path, *lines: bytes) -> AsyncIterator[None]:
    """A server that says these lines, and then nothing."""
    done = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.writelines(lines)
        await done.wait()
        writer.close()

    async with await asyncio.start_unix_server(answer, door):
        yield
        done.set()


async def said(door: Path, request: bytes) -> bytes:
    """The answer to a request that no command sends."""
    reader, writer = await asyncio.open_unix_connection(door)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


@in_loop
async def test_it_answers_under_a_long_path_and_replaces_what_was_left_behind(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 20) / ("deeper" * 20)
    folder.mkdir(parents=True)
    door = folder / "shoal.db.sock"
    async with Shoal.open("memory://") as opened:
        await opened.register("ann")
        with pytest.raises(NoServer):
            await ask(door, AskStatus())
        door.write_text("left behind by a server that was killed")
        async with listening(opened.network, door):
            assert (await ask(door, Check())).clean
        with pytest.raises(NoServer):
            await ask(door, Check())


@in_loop
async def test_an_error_comes_back_as_its_own_words(door: Path) -> None:
    async with Shoal.open("memory://") as opened, listening(opened.network, door):
        with pytest.raises(ShoalError, match="there is no member 'nobody'"):
            await ask(door, CheckThere("nobody"))
        with pytest.raises(ShoalError, match="password: 8 to 1024 characters"):
            await ask(door, AddMember("ann", "short"))
        assert (await ask(door, AddMember("ann", "a long password"))).name == "ann"
        await ask(door, SetRole("ann", Role.ADMIN))
        assert (await opened.member("ann")).name == "ann"


@in_loop
async def test_what_is_no_operation_is_refused(door: Path) -> None:
    async with Shoal.open("memory://") as opened, listening(opened.network, door):
        for request in (
            b"hello\n",
            b'{"operation":"Shout"}\n',
            b'{"operation":"SetHidden","post_id":"x","hidden":true}\n',
            b'{"operation":"Operation"}\n',
        ):
            assert b"does not know this operation" in await said(door, request), request
        with suppress(ConnectionError):
            # What is too long is not read to its end.
            assert b"does not know this operation" in await said(door, b"x" * (1 << 22))
        assert (await ask(door, AskStatus())).pid


@in_loop
async def test_only_so_many_are_answered_at_once(door: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_MOST_AT_ONCE", 1)
    async with Shoal.open("memory://") as opened, listening(opened.network, door):
        _, silent = await asyncio.open_unix_connection(door)
        with pytest.raises(ShoalError, match="under way already"):
            await _until_refused(door)
        silent.close()
        await silent.wait_closed()


async def _until_refused(door: Path) -> None:
    while True:
        await ask(door, AskStatus())


@in_loop
async def test_a_second_check_beside_a_first_is_refused(door: Path) -> None:
    async with Shoal.open("memory://") as opened:
        begun = _never_settles(opened)
        async with listening(opened.network, door):
            first = asyncio.create_task(ask(door, Check()))
            await begun.wait()
            with pytest.raises(ShoalError, match="another check, import or replay is under way"):
                await ask(door, Check())
            assert (await ask(door, AskStatus())).pid
        with pytest.raises(Unavailable):
            await first


@in_loop
async def test_whoever_hangs_up_ends_what_they_asked_for(door: Path) -> None:
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
    """Have what waits never be done: a check begins by waiting for that. Set when it has begun."""
    begun = asyncio.Event()

    async def drain(patience: float = 0, *, busy: bool = False) -> None:
        begun.set()
        await asyncio.sleep(3_600)

    opened.network.runner.drain = drain  # type: ignore[method-assign]
    return begun


@in_loop
async def test_a_server_that_works_for_long_says_so_and_one_that_hangs_is_given_up(
    door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stand_in(door, b"{}\n", b'{"progress":["posts",1,2]}\n'):
        with pytest.raises(Unavailable, match="has been silent"):
            await ask(door, Check(), silence=0.2)
    monkeypatch.setattr(control, "_BEAT_SECONDS", 0.01)
    async with Shoal.open("memory://") as opened:
        begun = _never_settles(opened)
        async with listening(opened.network, door):
            reader, writer = await asyncio.open_unix_connection(door)
            writer.write(b'{"operation":"Check"}\n')
            await begun.wait()
            assert await reader.readline() == b"{}\n"
            writer.close()
            await writer.wait_closed()


@in_loop
async def test_a_server_that_ends_in_the_middle_of_an_answer_is_an_error(door: Path) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    async with await asyncio.start_unix_server(hang_up, door):
        with pytest.raises(Unavailable, match="ended before it answered"):
            await ask(door, Check())
