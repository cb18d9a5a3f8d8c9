"""The synchronous library: all methods are available from any thread, and no call hangs."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from shoal import errors
from shoal.core.publishing import ALLOW, Candidate, Decision
from shoal.queries.streaming import Arrived, News
from shoal.sync import Handle, Shoal, Visitor
from tests.async_runner import at_a_desk, in_loop
from tests.library.route_methods import SURFACES

_HANG_SECONDS = 60


@pytest.mark.parametrize("surface", SURFACES)
def test_sync_library_methods_have_the_same_arguments_as_async_methods(surface: str) -> None:
    with Shoal.open("memory://") as shoal_:
        ann = shoal_.register("ann")
        at: Any = (
            {"shoal": shoal_, "member": ann}.get(surface) or getattr(shoal_, surface, None) or getattr(ann, surface)
        )
    awaited = SURFACES[surface]
    names = [name for name, value in inspect.getmembers(awaited, callable) if not name.startswith("_")]
    assert names
    for name in names:
        ours, theirs = getattr(type(at), name), getattr(awaited, name)
        given = [str(one) for one in inspect.signature(ours).parameters.values() if one.name not in ("self", "cls")]
        assert given == [str(one) for one in inspect.signature(theirs).parameters.values() if one.name != "self"], name
        assert not inspect.iscoroutinefunction(ours)


def test_sync_library_calls_return_results_without_await(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    with Shoal.open(url, max_post_characters=50) as network:
        ann, bob = network.register("ann"), network.register("bob", "a long password")
        assert (repr(ann), type(network.visitor)) == ("<member ann>", Visitor)
        ann.follow(bob)
        birds = ann.lists.create("Birds", replies="none")
        ann.lists.put_on(birds, bob)
        post = bob.create("A heron #heron", data={"count": 1})
        ann.comment(post, "Lucky @bob!", visibility="unlisted")
        network.settle()
        assert [entry.post for entry in ann.lists.timeline(birds).entries] == [post]
        assert [one.actor.member.name for one in bob.notifications.page(kinds=["mention"]).items] == ["ann"]
        assert network.tags.cloud().words[0].form == "heron"
        assert isinstance(network.member(bob), Handle)
        assert network.log_in("bob", "a long password").id == bob.id
        network.blocklists.block_domain("example.org")
        assert [type(block).__name__ for block in network.blocklists.blocks()] == ["EmailDomainBlock"]
        with pytest.raises(errors.TooLarge):
            ann.create("x" * 51)
        with pytest.raises(errors.NotFound):
            network.member("nobody")
        with pytest.raises(errors.Unavailable):
            Shoal.open(url)
    with Shoal.open(url) as network:
        assert [entry.post.data for entry in network.visitor.posts_by("bob").entries] == [{"count": 1}]


def test_sync_library_failed_open_leaves_no_threads() -> None:
    before = threading.active_count()
    with pytest.raises(errors.InvalidInput):
        Shoal.open("gopher://nowhere")
    wrong: Any = {"titel": "x"}
    with pytest.raises(errors.SettingsError, match="titel"):
        Shoal.open("memory://", **wrong)
    assert threading.active_count() == before


def test_sync_library_calls_from_many_threads_are_all_applied(tmp_path: Path) -> None:
    # On a busy machine, deliveries may be late, and posts would be refused.
    with Shoal.open(f"sqlite:///{tmp_path / 'shoal.db'}", most_behind_seconds=0) as network:
        ann = network.register("ann")
        post = ann.create("Like this")

        def act(number: int) -> None:
            member = network.register(f"member{number}")
            member.like(post)
            for word in ("one", "two", "three"):
                member.create(word)

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(act, range(40)))
        assert network.visitor.likers(post).total == 40
        network.settle()
        assert [network.visitor.profile_of(f"member{number}").posts for number in range(40)] == [3] * 40


@in_loop
async def test_sync_library_can_be_called_inside_a_running_event_loop() -> None:
    asyncio.get_running_loop()
    with Shoal.open("memory://") as network:
        ann = network.register("ann")
        ann.create("From a notebook")
        assert [entry.post.text for entry in ann.home().entries] == ["From a notebook"]


def test_sync_library_stream_is_an_iterator_that_ends_on_close() -> None:
    with Shoal.open("memory://", most_behind_seconds=0) as network:
        ann, bob = network.register("ann"), network.register("bob")
        ann.follow(bob)
        network.settle()
        stop = threading.Event()

        def post() -> None:
            while not stop.wait(0.02):
                bob.create("Now")

        writing = threading.Thread(target=post)
        writing.start()
        try:
            with closing(ann.live()) as stream:
                heard = [next(stream) for _ in range(3)]
        finally:
            stop.set()
            writing.join()
        assert [type(news) for news in heard] == [Arrived] * 3
        assert len({news.position for news in heard}) == 3
        _until_listeners(network, 0)
        with pytest.raises(errors.NotFound):
            next(ann.live_list(12_345))
        with pytest.raises(errors.InvalidInput):
            ann.live_tag("not a tag")


def test_sync_library_close_ends_streams_and_waiting_threads() -> None:
    network = Shoal.open("memory://")
    ann = network.register("ann")
    idle, waiting = ann.live_public(), ann.live()
    told: list[list[News]] = []
    listener = threading.Thread(target=lambda: told.append(list(waiting)))
    listener.start()
    _until_listeners(network, 1)
    network.close()
    listener.join(_HANG_SECONDS)
    assert told == [[]]
    with pytest.raises(RuntimeError, match="closed"):
        next(idle)


def test_sync_library_call_after_close_raises_and_second_close_is_ignored() -> None:
    with Shoal.open("memory://") as network:
        ann = network.register("ann")
    for call in (lambda: network.register("bob"), ann.home, lambda: next(ann.live()), ann.lists.all):
        with pytest.raises(RuntimeError, match="this Shoal is closed"):
            call()
    network.close()


def test_sync_library_close_waits_for_calls_of_other_threads(tmp_path: Path) -> None:
    network = Shoal.open(f"sqlite:///{tmp_path / 'shoal.db'}", most_behind_seconds=0)
    ann = network.register("ann")
    begun, refused, acknowledged = threading.Event(), threading.Event(), []
    resting = threading.Event()

    async def rest() -> str:
        resting.set()
        return await asyncio.sleep(0.5, "done")

    slow = ThreadPoolExecutor(1).submit(network._loop.call, rest())
    assert resting.wait(_HANG_SECONDS)

    def post() -> None:
        try:
            while True:
                acknowledged.append(ann.create("Before the end").id)
                begun.set()
        except RuntimeError:
            refused.set()

    threads = [threading.Thread(target=post) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(_HANG_SECONDS)
    network.close()
    for thread in threads:
        thread.join(_HANG_SECONDS)
    assert refused.is_set()
    assert slow.result() == "done"
    with Shoal.open(f"sqlite:///{tmp_path / 'shoal.db'}") as again:
        assert again.visitor.profile_of("ann").posts == len(set(acknowledged))


def _until_listeners(network: Shoal, number: int) -> None:
    for _ in range(_HANG_SECONDS * 100):
        if network._awaited.network.hub.connected == number:
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"there are not {number} listeners")


def ran(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a separate process, which must exit on its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", dedent(program)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_HANG_SECONDS,
        check=False,
        preexec_fn=at_a_desk,  # no other thread of the test runs here
    )


def test_sync_library_ctrl_c_interrupts_waiting_call_without_hanging(tmp_path: Path) -> None:
    done = ran(
        """
        import asyncio, os, signal, threading, time
        from shoal.sync import Shoal

        with Shoal.open("sqlite:///shoal.db") as shoal:
            ann = shoal.register("ann")
            for wait in (lambda: next(ann.live()), lambda: shoal._loop.call(asyncio.sleep(1000))):
                try:
                    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
                    wait()
                except KeyboardInterrupt:
                    print("interrupted", len(ann.create("Still here").text))
            shoal.settle()
            began = time.monotonic()
        print(threading.active_count(), time.monotonic() - began < 60)
        """,
        tmp_path,
    )
    assert (done.stdout.split("\n"), done.stderr) == (["interrupted 10", "interrupted 10", "1 True", ""], "")
    with Shoal.open(f"sqlite:///{tmp_path / 'shoal.db'}") as network:
        assert network.visitor.profile_of("ann").posts == 2


def test_sync_library_process_without_close_exits_cleanly_and_loses_no_data(tmp_path: Path) -> None:
    done = ran(
        """
        from shoal.sync import Shoal

        shoal = Shoal.open("sqlite:///shoal.db")
        ann = shoal.register("ann")
        stream = ann.live_public()
        ann.create("The last line")
        shoal.settle()
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # After a clean close, SQLite leaves no log file.
    assert not list(tmp_path.glob("*-wal"))
    with Shoal.open(f"sqlite:///{tmp_path / 'shoal.db'}") as network:
        assert network.visitor.profile_of("ann").posts == 1


def test_sync_library_forked_process_is_refused_and_parent_continues(tmp_path: Path) -> None:
    done = ran(
        """
        import os
        from shoal.sync import Shoal

        with Shoal.open("sqlite:///shoal.db") as shoal:
            ann = shoal.register("ann")
            stream = ann.live()
            child = os.fork()
            if child == 0:
                for call in (lambda: ann.create("x"), lambda: next(stream)):
                    try:
                        call()
                    except RuntimeError as error:
                        print(error, flush=True)
            else:
                assert os.waitpid(child, 0)[1] == 0
                ann.create("Still here")
        """,
        tmp_path,
    )
    told = "this Shoal was opened before the process was forked: open one in each process"
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, [told] * 2, "")
    with Shoal.open(f"sqlite:///{tmp_path / 'shoal.db'}") as network:
        assert network.visitor.profile_of("ann").posts == 1


def test_sync_library_shared_network_can_be_called_from_forked_processes(tmp_path: Path) -> None:
    done = ran(
        """
        import os
        from shoal.sync import Shoal

        def children(shoal, names):
            pids = []
            for name in names:
                child = os.fork()
                if child == 0:
                    me = shoal.register(name)
                    me.create("From " + name)
                    shoal.close()
                    os._exit(len(shoal_closed(shoal)))
                pids.append(child)
            assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(pids)

        def shoal_closed(shoal):
            try:
                shoal.register("zoe")
            except RuntimeError:
                return ""
            return "not closed"

        with Shoal.open("sqlite:///shoal.db", shared=True) as shoal:
            assert not os.path.exists("shoal.db")
            children(shoal, ["ann", "bob", "cyd"])
            dan = shoal.register("dan")
            children(shoal, ["eve", "fay"])
            dan.create("Still here")
            print([shoal.visitor.profile_of(name).posts for name in ("ann", "bob", "cyd", "dan", "eve", "fay")])
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, [str([1] * 6)], "")
    assert not list(tmp_path.glob("*-wal"))


def test_sync_library_child_process_outliving_owner_releases_the_store(tmp_path: Path) -> None:
    done = ran(
        """
        import os, signal, sys
        from shoal.sync import Shoal

        told, tell = os.pipe()
        if os.fork() == 0:
            shoal = Shoal.open("sqlite:///shoal.db", shared=True)
            ann = shoal.register("ann")
            child = os.fork()
            if child == 0:
                os.write(tell, str(os.getpid()).encode())
                signal.pause()
            os.kill(os.getpid(), signal.SIGKILL)
        os.wait()
        child = int(os.read(told, 20))
        try:
            with Shoal.open("sqlite:///shoal.db", shared=True) as shoal:
                print(shoal.member("ann").create("The owner is dead").text)
        finally:
            os.kill(child, signal.SIGKILL)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "The owner is dead\n", "")


def test_sync_library_shared_network_streams_and_closes_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    with (
        Shoal.open(url, shared=True, most_behind_seconds=0) as first,
        Shoal.open(url, shared=True, most_behind_seconds=0) as second,
    ):
        ann = first.register("ann")
        bob = second.register("bob")
        stop = threading.Event()

        def post() -> None:
            while not stop.wait(0.02):
                ann.create("Now")

        writing = threading.Thread(target=post)
        writing.start()
        try:
            with closing(bob.live_public()) as stream:
                heard = [next(stream) for _ in range(3)]
        finally:
            stop.set()
            writing.join()
        assert [type(news) for news in heard] == [Arrived] * 3
        first.close()
        first.close()
        assert bob.create("By the next owner").text == "By the next owner"
        with pytest.raises(RuntimeError, match="this Shoal is closed"):
            ann.home()


def test_sync_network_opened_with_moderation_rejects_posts_and_refuses_shared_network(tmp_path: Path) -> None:
    async def check(candidate: Candidate) -> Decision:
        return Decision("reject", "no such words here") if "spam" in candidate.text else ALLOW

    with Shoal.open("memory://", moderation=check) as shoal:
        ann = shoal.register("ann")
        assert ann.create("hello").text == "hello"
        with pytest.raises(errors.Rejected, match="no such words here"):
            ann.create("spam")
    with pytest.raises(errors.InvalidInput, match="moderation_hook"):
        Shoal.open(f"sqlite:///{tmp_path / 'shoal.db'}", shared=True, moderation=check)
