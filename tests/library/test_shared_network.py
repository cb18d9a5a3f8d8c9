"""A network shared by several processes: callers get identical results to the owner, and every wait has a timeout."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from msgspec import inspect as types

from shoal import Handle, Shoal, errors
from shoal import settings as configuration
from shoal.core.errors import ShoalError
from shoal.graph.contract import announce
from shoal.graph.sqlite import files
from shoal.graph.sqlite import store as sqlite_store
from shoal.library import network as library
from shoal.library import remote_calls as calling
from shoal.library import shared_network as sessions
from shoal.library.acting import Identity
from shoal.library.remote_methods import ELSEWHERE, kinds_of, surface
from shoal.library.shared_network import SharedNetwork
from shoal.multiprocess import link
from shoal.multiprocess.rpc import PROTOCOL, Hello
from shoal.queries.streaming import Arrived, Refresh
from tests.async_runner import eventually, in_loop
from tests.library.network_fixtures import has_store, listeners, owner_and_caller, uncached
from tests.library.test_public_interface import _NOT_CALLED, arguments

NOUNS = surface(kinds_of(library.Shoal(ELSEWHERE)))
METHODS = [(noun, name) for noun, methods in NOUNS.items() for name in methods]
_SIMPLE = (int, float, str, bytes, bool, type(None), datetime, Path)


def test_shared_network_remote_methods_cover_all_library_classes() -> None:
    assert {"shoal", "shoal.moderation", "shoal.visitor", "member", "member.lists", "member.scheduled"} <= NOUNS.keys()
    assert len(METHODS) > 200
    assert [name for name, method in NOUNS["member"].items() if method.streams] == sorted(
        ["live", "live_conversations", "live_feed", "live_list", "live_notifications", "live_public", "live_tag"]
    )
    assert [name for name, method in NOUNS["shoal"].items() if method.streams] == ["events", "events_state"]
    assert {name for methods in NOUNS.values() for name, method in methods.items() if method.idempotent} == {
        "create",
        "comment",
    }


@pytest.mark.parametrize(("noun", "name"), METHODS)
def test_shared_network_remote_method_types_are_serializable(noun: str, name: str) -> None:
    hints = get_type_hints(NOUNS[noun][name].function)
    answer = hints.pop("return")
    if NOUNS[noun][name].decoder is not None:
        assert not list(_untyped(types.type_info(answer), set()))
    for parameter, hint in hints.items():
        assert _sendable(hint), f"{parameter}: {hint}"


def _untyped(kind: Any, seen: set[Any]) -> Any:
    """Yield types of a return value that MessagePack does not restore."""
    if isinstance(kind, types.CustomType):
        yield kind
    own = getattr(kind, "cls", None)
    if own in seen:
        return
    seen.add(own)
    parts = [field.type for field in getattr(kind, "fields", ())]
    parts += [getattr(kind, name) for name in ("item_type", "key_type", "value_type") if hasattr(kind, name)]
    for part in (*parts, *getattr(kind, "item_types", ()), *getattr(kind, "types", ())):
        yield from _untyped(part, seen)


def _sendable(hint: Any) -> bool:
    """Return whether values of a type are plain or structures, and not files or functions."""
    if not isinstance(hint, type):
        parts = [part for part in get_args(hint) if part is not Ellipsis]
        return all(isinstance(part, str | int) or _sendable(part) for part in parts)
    if issubclass(hint, Enum | Identity | msgspec.Struct) or hint in (*_SIMPLE, msgspec.UnsetType):
        return True
    return hasattr(hint, "_fields") or hasattr(hint, "__dataclass_fields__") or hint is object


@in_loop
async def test_shared_network_caller_raises_the_same_errors_as_the_owner(tmp_path: Path) -> None:
    """Fails when an error class or a field of an error is not transmitted."""
    async with Shoal.open("memory://") as alone, owner_and_caller(tmp_path) as (_, caller):
        await alone.register("ann")
        await caller.register("ann")
        raised = 0
        for noun, name in METHODS:
            if name in _NOT_CALLED | {"register"} or NOUNS[noun][name].streams:
                continue
            root, _, attribute = noun.partition(".")
            told = []
            for shoal in (alone, caller):
                thing: Any = shoal if root == "shoal" else await shoal.member("ann")
                method = getattr(getattr(thing, attribute) if attribute else thing, name)
                given, named = arguments(method, name)
                told.append(await _outcome(method(*given, **named)))
            (kind, *details), (other, *others) = told
            assert kind is other, f"{noun}.{name}: {told}"
            assert details == others or kind is None, f"{noun}.{name}: {told}"
            raised += kind is not None
        assert raised > 60


async def _outcome(call: Awaitable[object]) -> list[Any]:
    try:
        return [None, await call]
    except ShoalError as error:
        return [type(error), str(error), getattr(error, "field", ""), getattr(error, "retry_after", "")]


@in_loop
async def test_shared_network_caller_reads_equal_owner_reads(tmp_path: Path) -> None:
    async with owner_and_caller(tmp_path) as (owner, caller):
        ann, bob = await owner.register("ann"), await caller.register("bob")
        assert (type(bob).__name__, repr(bob), bob.name) == ("Handle", "<member bob>", "bob")
        assert isinstance(bob, Handle)
        await bob.follow(ann)
        data = {"kind": "event", "places": [1, 2.5, None, {"deep": True}]}
        post = await ann.create("A heron #heron", data=data, poll=None)
        await bob.react(post, "👍")
        await bob.comment(post, "Lucky")
        await caller.settle()
        reads: tuple[Callable[[Shoal, Handle], Awaitable[object]], ...] = (
            lambda shoal, member: member.home(),
            lambda shoal, member: member.read(post),
            lambda shoal, member: member.thread(post.id),
            lambda shoal, member: member.relations(ann, bob),
            lambda shoal, member: member.notifications.grouped(),
            lambda shoal, member: shoal.tags.cloud(),
            lambda shoal, member: shoal.visitor.profile_of("ann"),
            lambda shoal, member: shoal.moderation.members(),
            lambda shoal, member: shoal.tags.tag("nobody"),
        )
        for read in reads:
            theirs = await read(owner, await owner.member("bob"))
            ours = await read(caller, bob)
            assert (type(ours), ours) == (type(theirs), theirs)
        assert (await bob.read(post)).post.data == data
        assert (await caller.member(bob)).id == bob.id
        moment = datetime.now(UTC) + timedelta(days=1)
        waits = await bob.scheduled.create("Later", at=moment)
        assert await (await owner.member("bob")).scheduled.get(waits.id) == waits


@in_loop
async def test_shared_network_invalid_arguments_are_refused_before_sending(tmp_path: Path) -> None:
    async with owner_and_caller(tmp_path) as (_, caller):
        ann: Any = await caller.register("ann")
        with pytest.raises(TypeError, match="titel"):
            await ann.create(titel="x")
        with pytest.raises(TypeError, match="function cannot be sent"):
            await ann.create(lambda: "x")
        with pytest.raises(errors.TooLarge, match="64 bits"):
            await ann.read(1 << 70)
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        with pytest.raises(errors.InvalidInput):
            await ann.create("x", data={"deep": deep})
        for reach in (lambda: caller.network, lambda: caller.network.settings):
            with pytest.raises(RuntimeError, match="only its methods are available"):
                reach()
        assert (await ann.create("Still here")).text == "Still here"


@in_loop
async def test_shared_network_oversized_call_is_refused_and_next_call_succeeds(tmp_path: Path) -> None:
    async with owner_and_caller(tmp_path, max_upload_bytes=1_000, max_video_bytes=1_000) as (_, caller):
        ann = await caller.register("ann")
        with pytest.raises(errors.TooLarge, match="a call between processes has at most"):
            await ann.upload(bytes(9 << 20))
        with pytest.raises(errors.TooLarge, match="too large"):
            await ann.upload(b"\x89PNG\r\n\x1a\n" + bytes(2 << 20))
        assert (await ann.create("Still here")).text


@in_loop
async def test_shared_network_relative_path_is_resolved_in_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with owner_and_caller(tmp_path) as (_, caller):
        ann = await caller.register("ann")
        sent: list[Any] = []
        made = calling.RemoteNetwork.call

        async def noted(self: Any, call: Any) -> Any:
            sent.append(call.args)
            return await made(self, call)

        monkeypatch.setattr(calling.RemoteNetwork, "call", noted)
        monkeypatch.chdir(tmp_path)
        assert await ann.export("mine.zip") == 0
        assert sent == [(tmp_path / "mine.zip",)]
        assert (tmp_path / "mine.zip").exists()


@in_loop
async def test_shared_network_cancelled_call_is_cancelled_in_the_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with owner_and_caller(tmp_path) as (owner, caller):
        begun, ended = asyncio.Event(), asyncio.Event()

        async def held(*_: object) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        with monkeypatch.context() as patch:
            patch.setattr(type(uncached(owner).network), "settle", held)
            call = asyncio.create_task(caller.settle())
            await asyncio.wait_for(begun.wait(), 60)
            call.cancel()
            await asyncio.wait_for(ended.wait(), 60)
            with pytest.raises(asyncio.CancelledError):
                await call
        await caller.settle()


@in_loop
async def test_shared_network_closed_stream_ends_in_the_owner(tmp_path: Path) -> None:
    async with owner_and_caller(tmp_path) as (owner, caller):
        ann = await caller.register("ann")
        hub = uncached(owner).network.hub

        async def connected() -> int:
            return hub.connected

        async with aclosing(ann.live_public()) as news:
            first = asyncio.ensure_future(anext(news))
            await eventually(connected, 1)
            post = await ann.create("Now")
            heard = await asyncio.wait_for(first, 60)
            assert isinstance(heard, Arrived)
            assert heard.entry.post == post
        await eventually(connected, 0)
        waiting = asyncio.ensure_future(anext(ann.live_public()))
        await eventually(connected, 1)
        waiting.cancel()
        await eventually(connected, 0)
        with pytest.raises(errors.NotFound):
            await anext(ann.live_list(12_345))
        assert listeners(uncached(owner)) == 0


@in_loop
async def test_shared_network_stream_continues_with_next_owner_after_refresh_event(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    opening = Shoal.open(url, shared=True)
    owner = await opening.__aenter__()
    async with Shoal.open(url, shared=True) as caller:
        ann = await caller.register("ann")
        async with aclosing(ann.live_public()) as news:
            waiting = asyncio.ensure_future(anext(news))
            await eventually(_listening(owner), 1)
            await opening.__aexit__(None, None, None)
            assert isinstance(await asyncio.wait_for(waiting, 60), Refresh)
            assert has_store(caller)
            post = await ann.create("By the new owner")
            heard = await asyncio.wait_for(anext(news), 60)
            assert isinstance(heard, Arrived)
            assert heard.entry.post == post


def _listening(shoal: Shoal) -> Callable[[], Awaitable[int]]:
    async def number() -> int:
        return uncached(shoal).network.hub.connected

    return number


@in_loop
async def test_shared_network_closing_owner_completes_calls_and_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    opening = Shoal.open(url, shared=True)
    await opening.__aenter__()
    async with Shoal.open(url, shared=True) as second, Shoal.open(url, shared=True) as third:
        ann = await second.register("ann")
        begun, go_on = asyncio.Event(), asyncio.Event()
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_store, "announce", _once(_held_after, begun, go_on))
            slow = asyncio.create_task(ann.create("Under way"))
            await asyncio.wait_for(begun.wait(), 60)
            closing = asyncio.create_task(opening.__aexit__(None, None, None))
            late = asyncio.create_task((await _handle(third, ann)).create("Later"))
            await asyncio.sleep(0.05)
            go_on.set()
            assert {(await slow).text, (await late).text} == {"Under way", "Later"}
            await closing

        async def owners() -> int:
            return has_store(second) + has_store(third)

        await eventually(owners, 1)
        assert len((await third.visitor.posts_by("ann")).entries) == 2


async def _handle(shoal: Any, like: Any) -> Any:
    """Return a handle without a remote call."""
    return shoal._session._values.identity(like.id, like.name)


def _once(held: Callable[..., Awaitable[None]], *events: asyncio.Event) -> Callable[[], Awaitable[None]]:
    """Hold the first change and let later ones continue."""
    done = False

    async def announced() -> None:
        nonlocal done
        first, done = not done, True
        await (held(*events) if first else announce())

    return announced


async def _held_after(begun: asyncio.Event, go_on: asyncio.Event) -> None:
    await announce()
    begun.set()
    await go_on.wait()


async def _held_before(begun: asyncio.Event, go_on: asyncio.Event) -> None:
    begun.set()
    await go_on.wait()
    await announce()


@pytest.mark.parametrize(
    ("held", "request_", "unknown"),
    [(_held_before, "", False), (_held_after, "key", False), (_held_after, "", True)],
    ids=["not begun", "begun with a request", "begun without"],
)
@in_loop
async def test_shared_network_call_to_lost_owner_is_retried_when_safe(
    held: Callable[..., Awaitable[None]],
    request_: str,
    unknown: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with owner_and_caller(tmp_path) as (owner, caller):
        ann = await caller.register("ann")
        begun = asyncio.Event()
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_store, "announce", _once(held, begun, asyncio.Event()))
            call = asyncio.create_task(ann.create("Once", request=request_))
            await asyncio.wait_for(begun.wait(), 60)
            _break(caller)
            if unknown:
                with pytest.raises(errors.OutcomeUnknown, match="may or may not have been stored"):
                    await asyncio.wait_for(call, 60)
            else:
                assert (await asyncio.wait_for(call, 60)).text == "Once"
        entries = (await owner.visitor.posts_by("ann")).entries
        assert len(entries) == (0 if unknown else 1)


def _break(caller: Any) -> None:
    """Cut the connection to the owner."""
    caller._session._side.client.link.shut()


@in_loop
async def test_shared_network_call_that_crashes_owners_is_retried_three_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with owner_and_caller(tmp_path) as (_, caller):
        ann = await caller.register("ann")
        attempts = 0

        async def deadly() -> None:
            nonlocal attempts
            attempts += 1
            _break(caller)
            await asyncio.Event().wait()

        with monkeypatch.context() as patch:
            patch.setattr(sqlite_store, "announce", deadly)
            with pytest.raises(errors.Unavailable, match="on every attempt"):
                await asyncio.wait_for(ann.create("Deadly"), 60)
        assert attempts == 4
        assert (await ann.create("Harmless")).text


@in_loop
async def test_shared_network_unresponsive_owner_times_out(tmp_path: Path) -> None:
    settings = configuration.build(store=f"sqlite:///{tmp_path / 'shoal.db'}")
    path = tmp_path / "shoal.db.calls.sock"
    with link.listen(path, 8) as listener:
        taken = SharedNetwork(settings, library.Shoal, patience=600.0, silence=0.3)
        lock = files.own(tmp_path / "shoal.db")
        try:
            accepting = asyncio.create_task(_greet(listener, taken))
            async with taken.opened(wait=True) as shoal:
                handle = shoal._session._values.identity(7, "ann")
                began = asyncio.get_running_loop().time()
                with pytest.raises(errors.Unavailable, match="on every attempt"):
                    await asyncio.wait_for(handle.home(), 60)
                assert asyncio.get_running_loop().time() - began < 60
            accepting.cancel()
            with suppress(asyncio.CancelledError):
                await accepting
        finally:
            files.release(lock)


async def _greet(listener: socket.socket, network: SharedNetwork) -> None:
    """Send the hello frame to each process and no response after it."""
    kept = []
    try:
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(listener)
            kept.append(sock)
            sock.sendall(link.frame(Hello(PROTOCOL, network.session._values.fingerprint, 1 << 20), 1 << 20))
    finally:
        for sock in kept:
            sock.close()


@in_loop
async def test_shared_network_refuses_process_with_another_version_of_shoal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"

    def of_the_next_version(other: SharedNetwork) -> None:
        monkeypatch.setattr(other.session._values, "fingerprint", "of the next version")

    async with Shoal.open(url, shared=True):
        await _is_refused(url, "runs another version of Shoal", of_the_next_version)


async def _is_refused(url: str, reason: str, change: Callable[[SharedNetwork], None] = lambda _: None) -> None:
    """Assert that opening a shared network is refused for this reason; on a busy machine, the first attempts may time out."""

    async def refused() -> bool:
        other = SharedNetwork(configuration.build(store=url), library.Shoal, patience=0.3)
        change(other)
        with pytest.raises(errors.Unavailable) as refusal:
            async with other.opened():
                pass
        return re.search(reason, str(refusal.value)) is not None

    await eventually(refused, True)


_FINGERPRINT = """
from shoal import Shoal, settings
from shoal.library.shared_network import SharedNetwork

print(SharedNetwork(settings.build(store="sqlite:///shoal.db"), Shoal).session._values.fingerprint)
"""


def test_shared_network_version_fingerprint_is_independent_of_hash_seed() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", _FINGERPRINT],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(found) == 1
    assert len(found.pop()) == 65


@in_loop
async def test_shared_network_open_of_unshared_store_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    async with Shoal.open(url):
        await _is_refused(url, "in use by another process.*, or make it share the store")
        with pytest.raises(errors.InUse):
            async with Shoal.open(url):
                pass


@pytest.mark.parametrize("url", ["memory://", "postgresql://nowhere/shoal"])
@in_loop
async def test_shared_network_of_store_other_than_sqlite_file_is_refused(url: str) -> None:
    with pytest.raises(errors.InvalidInput, match="one SQLite file"):
        async with Shoal.open(url, shared=True):
            pass


@in_loop
async def test_shared_network_socket_is_owner_only_and_removed_on_close(tmp_path: Path) -> None:
    path = tmp_path / "shoal.db.calls.sock"
    deep = tmp_path / ("d" * 90) / ("e" * 90)
    deep.mkdir(parents=True)
    for folder in (tmp_path, deep):
        path = folder / "shoal.db.calls.sock"
        # A leftover socket path of a killed process.
        path.touch()
        async with Shoal.open(f"sqlite:///{folder / 'shoal.db'}", shared=True) as shoal:
            await shoal.register("ann")
            assert stat.S_ISSOCK(path.stat().st_mode)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not path.exists()


@in_loop
async def test_shared_network_socket_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    monkeypatch.setattr(os, "geteuid", lambda: 1_234)
    async with Shoal.open(url, shared=True):
        monkeypatch.setattr(link, "user_of", lambda _: 4_321)
        await _is_refused(url, "belongs to another user")


@in_loop
async def test_calls_to_owner_process_over_concurrency_limit_are_queued(tmp_path: Path) -> None:
    async with owner_and_caller(tmp_path) as (_, caller):
        ann = await caller.register("ann")
        found = await asyncio.gather(*(caller.member(ann.id) for _ in range(700)))
        assert {handle.name for handle in found} == {"ann"}


@in_loop
async def test_shared_network_malformed_frames_close_only_their_connection(tmp_path: Path) -> None:
    async with owner_and_caller(tmp_path) as (_, caller):
        ann = await caller.register("ann")
        for noise in (b"\xff\xff\xff\xff", b"\0\0\0\1\xc1", b"\0\0\0\3\x93\x01\x02", b"GET / HTTP/1.1\r\n\r\n"):
            with link.at(tmp_path / "shoal.db.calls.sock") as address:
                reader, writer = await asyncio.open_unix_connection(address)
            writer.write(noise)
            async with asyncio.timeout(60):
                assert b"hello" in await reader.read()
            writer.close()
        assert (await ann.create("Still here")).text


@in_loop
async def test_shared_network_call_after_close_raises_runtime_error(tmp_path: Path) -> None:
    async with Shoal.open(f"sqlite:///{tmp_path / 'shoal.db'}", shared=True) as shoal:
        ann = await shoal.register("ann")
    for call in (ann.home(), shoal.register("bob"), anext(ann.live())):
        with pytest.raises(RuntimeError, match="this Shoal is closed"):
            await call


def test_shared_network_timeouts_are_at_most_60_seconds() -> None:
    assert sessions.PATIENCE_SECONDS <= 60
    assert calling.SILENCE_SECONDS <= 60
