"""`shoal project` as a program: with a server, without one, and killed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from click.testing import CliRunner, Result

from shoal import Shoal
from shoal.graph.contract import MAX_TIME
from shoal.graph.event_log import EventLog
from shoal.settings import load
from shoal_project.cli import project
from shoal_project.targets import opened
from tests.async_runner import in_loop, run
from tests.project.projections import facts_in, facts_of
from tests.server_process import Server, served

KILLS = 6
_PROGRAM = "from shoal.settings import load; from shoal_project.cli import project; project(obj=load())"


async def prepared(store: Path) -> str:
    """Create a network, and return the secret of a server key."""
    async with Shoal.open(f"sqlite:///{store}", event_log="on") as shoal:
        ann, bob = await shoal.register("ann"), await shoal.register("bob")
        await bob.follow(ann)
        await bob.like(await ann.create("Low #tide"))
        return (await shoal.server_keys.create("reports", ["server:events"])).secret


def invoke(store: Path, *arguments: str) -> Result:
    settings = load({"SHOAL_EVENT_LOG": "on"}, store=f"sqlite:///{store}")
    return CliRunner().invoke(project, list(arguments), obj=settings)


def texts(copy: Path) -> list[str]:
    try:
        return [text for (text,) in sqlite3.connect(copy).execute("SELECT text FROM posts ORDER BY id")]
    except sqlite3.OperationalError:
        return []


def _has_more(copy: Path, before: int) -> bool:
    return len(texts(copy)) > before


def _until(is_true: Callable[[], bool], program: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while not is_true():
        assert program.poll() is None, "the program ended"
        assert time.monotonic() < until
        time.sleep(0.01)


def test_project_command_without_server_reads_the_whole_log_and_stops(tmp_path: Path) -> None:
    store, copy = tmp_path / "shoal.db", tmp_path / "copy.db"
    run(prepared(store))
    done = invoke(store, "--to", f"sqlite:///{copy}")
    assert (done.exit_code, done.output) == (0, "")
    assert texts(copy) == ["Low #tide"]

    async def more() -> None:
        async with Shoal.open(f"sqlite:///{store}", event_log="on") as shoal:
            await (await shoal.member("bob")).create("High tide")

    run(more())
    assert invoke(store, "--to", f"sqlite:///{copy}", "--once").exit_code == 0
    assert texts(copy) == ["Low #tide", "High tide"]


def test_project_command_next_to_server_reads_its_store_and_its_api(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    secret = run(prepared(store))
    with served(store, SHOAL_EVENT_LOG="on") as server:
        assert invoke(store, "--to", f"sqlite:///{tmp_path}/a.db", "--once").exit_code == 0
        done = invoke(store, "--to", f"sqlite:///{tmp_path}/b.db", "--once", "--server", server.url, "--key", secret)
        assert (done.exit_code, done.output) == (0, "")
        queries = ("SELECT id, name, version FROM members ORDER BY id", "SELECT * FROM likes", "SELECT * FROM daily")
        for query in queries:
            a, b = (sqlite3.connect(tmp_path / name).execute(query).fetchall() for name in ("a.db", "b.db"))
            assert a == b != []


def test_project_command_explains_what_a_key_or_server_lacks(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    secret = run(prepared(store))
    to = ("--to", f"sqlite:///{tmp_path}/copy.db", "--once")
    with served(store, SHOAL_EVENT_LOG="on") as server:
        cases = (
            (("--server", server.url), "needs a server key, in --key"),
            (("--server", server.url, "--key", "wrong"), "The access token is invalid"),
            (("--server", server.url, "--key", secret, "--include", "direct"), "needs the scope server:private"),
            (("--server", "social.example", "--key", secret), "is not a URL such as"),
            (("--server", "http://127.0.0.1:1", "--key", secret), "does not answer"),
        )
        for arguments, message in cases:
            done = invoke(store, *to, *arguments)
            assert done.exit_code != 0
            assert message in f"{done.output} {done.exception}", arguments
    assert not texts(tmp_path / "copy.db")


def test_project_command_after_missed_events_asks_for_rebuild(tmp_path: Path) -> None:
    store, copy = tmp_path / "shoal.db", tmp_path / "copy.db"
    secret = run(prepared(store))
    to = ("--to", f"sqlite:///{copy}", "--once")
    assert invoke(store, *to).exit_code == 0

    async def miss() -> None:
        async with Shoal.open(f"sqlite:///{store}", event_log="on") as shoal:
            for text in ("High tide", "Ebb"):
                await (await shoal.member("bob")).create(text)
            await EventLog(shoal.network.store).trim(MAX_TIME)

    run(miss())
    alone = invoke(store, *to)
    with served(store, SHOAL_EVENT_LOG="on") as server:
        told = [alone, invoke(store, *to), invoke(store, *to, "--server", server.url, "--key", secret)]
        assert [(done.exit_code, "run with --rebuild" in done.output) for done in told] == [(1, True)] * 3
        assert texts(copy) == ["Low #tide"]
        assert invoke(store, *to, "--rebuild").exit_code == 0
    assert texts(copy) == ["Low #tide", "High tide", "Ebb"]


def test_project_command_refuses_store_itself_as_target(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    run(prepared(store))
    before = store.read_bytes()
    done = invoke(store, "--to", f"sqlite:///{store}")
    assert "is the store of the network: use another file" in str(done.exception)
    assert store.read_bytes() == before


@in_loop
async def test_project_command_killed_while_server_is_killed_too_equals_network(tmp_path: Path) -> None:
    store, copy = tmp_path / "shoal.db", tmp_path / "copy.db"
    secret = await prepared(store)
    written = 1

    def following(server: Server) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _PROGRAM, "--to", f"sqlite:///{copy}", "--server", server.url]
        return subprocess.Popen(command, env={**os.environ, "SHOAL_PROJECT_KEY": secret})

    for round_ in range(KILLS):
        async with Shoal.open(f"sqlite:///{store}", event_log="on") as shoal:
            ann = await shoal.member("ann")
            for _ in range(40):
                await ann.like(await ann.create(f"post {written}"))
                written += 1
        with served(store, SHOAL_EVENT_LOG="on") as server, following(server) as program:
            before = len(texts(copy))
            # Each time, the program is killed soon after one of its commits.
            _until(partial(_has_more, copy, before), program)
            if round_ % 2:
                server.kill()
            program.kill()
    with served(store, SHOAL_EVENT_LOG="on") as server, following(server) as program:
        _until(lambda: len(texts(copy)) == written, program)
        program.kill()
    async with Shoal.open(f"sqlite:///{store}") as shoal, opened(f"sqlite:///{copy}") as target:
        assert await facts_in(target) == await facts_of(shoal.network.store)
