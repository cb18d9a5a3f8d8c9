"""The programs of `examples/` work with the installed wheel."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread
from typing import Any, ClassVar

import httpx
import pytest
from mastodon import Mastodon
from websockets.sync.client import connect

from shoal import Shoal
from tests.async_runner import run
from tests.server_process import first_url, served
from tests.wheel import Installed

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PASSWORD = "a long password"


@pytest.fixture
def board(tmp_path: Path, installed: Installed) -> Iterator[httpx.Client]:
    """Serve a new notice board and yield a client."""
    if find_spec("fastapi") is None:
        if os.environ.get("CI"):
            pytest.fail("fastapi is not installed")
        pytest.skip("fastapi is not installed: pip install fastapi")
    command = [installed.python, "-m", "uvicorn", "board:app", "--app-dir", str(EXAMPLES), "--port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            with httpx.Client(base_url=first_url(process), timeout=60.0) as client:
                yield client
        finally:
            process.kill()


def test_notice_board_example_shows_posts_to_followers(board: httpx.Client) -> None:
    ann, bob = {"x-user": "ann"}, {"x-user": "bob"}
    assert board.get("/notices", headers=ann).json() == []
    assert board.post("/follow/ann", headers=bob).status_code == 204
    pinned = board.post("/notices", headers=ann, json={"text": "A bicycle", "price": 40})
    assert pinned.status_code == 201
    assert board.post(f"/notices/{pinned.json()['id']}/like", headers=bob).status_code == 204
    until(lambda: len(board.get("/notices", headers=bob).json()) == 1)
    shown = board.get("/notices", headers=bob).json()
    assert shown == [{"id": pinned.json()["id"], "author": "ann", "text": "A bicycle", "likes": 1}]


def test_notice_board_example_returns_library_errors_with_status_and_message(board: httpx.Client) -> None:
    ann = {"x-user": "ann"}
    missing = board.post("/follow/nobody", headers=ann)
    assert (missing.status_code, missing.json()) == (404, {"error": "no member 'nobody'"})
    assert board.post("/notices", headers=ann, json={"text": ""}).status_code == 422
    assert board.get("/notices", headers={"x-user": "not a name"}).status_code == 422


def test_notice_board_example_sends_live_updates_over_websocket(board: httpx.Client) -> None:
    ann, bob = {"x-user": "ann"}, {"x-user": "bob"}
    board.get("/notices", headers=ann)
    board.post("/follow/ann", headers=bob)
    heard = Event()

    def pin_up() -> None:
        while not heard.wait(0.2):
            board.post("/notices", headers=ann, json={"text": "A lamp"}).raise_for_status()

    with connect(f"ws://{board.base_url.netloc.decode()}/live", additional_headers=bob, open_timeout=60) as socket:
        pinning = Thread(target=pin_up)
        pinning.start()
        try:
            assert json.loads(socket.recv(timeout=60)) == {"kind": "Arrived", "author": "ann", "text": "A lamp"}
        finally:
            heard.set()
            pinning.join()


def test_dice_bot_example_answers_each_mention_once_after_restarts(tmp_path: Path, installed: Installed) -> None:
    store = tmp_path / "shoal.db"
    run(_register(store))
    with served(store) as server:
        ann = _log_in(server.url, "ann")
        waited = ann.status_post("@dice 2d6 please")
        with _bot(installed, server.url):
            until(lambda: _answers(ann, waited))
            came = ann.status_post("@dice hello", visibility="direct")
            until(lambda: _answers(ann, came))
        later = ann.status_post("@dice 1d6")
        with _bot(installed, server.url):
            until(lambda: _answers(ann, later))
        assert "2d6:" in _answers(ann, waited)[0].content
        assert "how many sides" in _answers(ann, came)[0].content
        assert _answers(ann, came)[0].visibility == "direct"
        assert [len(_answers(ann, status)) for status in (waited, came, later)] == [1, 1, 1]


@pytest.fixture
def archive_storage(tmp_path: Path, installed: Installed) -> Iterator[str]:
    """Serve a new swap example and yield its address."""
    command = [installed.python, "-m", "flask", "--app", str(EXAMPLES / "swap"), "run", "--port", "0"]
    with _serving("flask", command, tmp_path) as url:
        yield url


def test_swap_example_shows_offers_to_all_visitors_and_counts_requests(archive_storage: str) -> None:
    with _stranger(archive_storage) as ann, _stranger(archive_storage) as bob:
        assert "Nothing yet" in bob.get("/").text
        assert ann.post("/enter", data={"name": "ann"}).status_code == 200
        assert "two &lt;b&gt; chairs" in ann.post("/offers", data={"text": "two <b> chairs #furniture"}).text
        bob.post("/enter", data={"name": "bob"})
        until(lambda: "two &lt;b&gt; chairs" in bob.get("/tags/furniture").text)
        (action,) = re.findall(r'action="(/offers/\d+/want)"', bob.get("/").text)
        assert "<button>1 want it</button>" in bob.post(action).text
        assert "Nothing yet" in bob.get("/tags/books").text


def test_swap_example_refuses_anonymous_and_invalid_requests(archive_storage: str) -> None:
    with _stranger(archive_storage) as eve:
        refused = eve.post("/offers", data={"text": "a lamp"})
        assert (refused.status_code, "enter your name first" in refused.text) == (403, True)
        assert eve.post("/enter", data={"name": "not a name"}).status_code == 422
        eve.post("/enter", data={"name": "eve"})
        assert eve.post("/offers/12345/want").status_code == 404
        assert "Nothing yet" in eve.get("/").text


@pytest.fixture
def club(tmp_path: Path, installed: Installed) -> Iterator[str]:
    """Serve a new reading club and yield its address."""
    command = [installed.python, "-u", str(EXAMPLES / "club.py"), "runserver", "--noreload", "--skip-checks", "0"]
    with _serving("django", command, tmp_path) as url:
        yield url


def test_reading_club_example_shows_books_of_followed_readers(club: str) -> None:
    with _stranger(club) as ann, _stranger(club) as bob:
        for client, name in ((ann, "ann"), (bob, "bob")):
            assert _fill_in(client, "/enter", name=name).status_code == 200
        _fill_in(bob, "/follow", name="ann")
        assert "Dune, 4 of 5 stars" in _fill_in(ann, "/books", title="Dune", stars="4").text
        until(lambda: "<b>ann</b>: Dune, 4 of 5 stars" in bob.get("/").text)
        assert "Emma" not in _fill_in(bob, "/books", title="Emma", stars="9").text
        _fill_in(bob, "/books", title="Emma", stars="5")
        assert "Emma" not in ann.get("/").text


def test_reading_club_example_refuses_anonymous_and_cross_site_forms(club: str) -> None:
    with _stranger(club) as eve:
        refused = _fill_in(eve, "/books", title="Dune", stars="4")
        assert (refused.status_code, "enter your name first" in refused.text) == (400, True)
        assert eve.post("/enter", data={"name": "eve"}).status_code == 403
        assert "no member &#x27;nobody&#x27;" in _after_entering(eve, "/follow", name="nobody").text


@pytest.fixture
def django_site(tmp_path: Path, installed: Installed) -> Iterator[str]:
    """Serve the Django site with empty databases and yield its address."""
    program = [installed.python, "-u", str(EXAMPLES / "django_site.py")]
    if find_spec("django") is not None:
        subprocess.run([*program, "migrate"], cwd=tmp_path, check=True, capture_output=True)
    with _serving("django", [*program, "runserver", "--noreload", "--skip-checks", "0"], tmp_path) as url:
        yield url


def test_django_site_example_session_is_enough_for_feed(django_site: str) -> None:
    fields = {"password1": PASSWORD, "password2": PASSWORD}
    with _stranger(django_site) as ann, _stranger(django_site) as bob, _stranger(django_site) as again:
        assert bob.get("/").url.path == "/login"
        for client, name in ((ann, "ann"), (bob, "bob")):
            assert f"Log out {name}" in _fill_in(client, "/signup", page="/signup", username=name, **fields).text
        assert "<b>ann</b>: Low tide" in _fill_in(ann, "/posts", text="Low tide").text
        _fill_in(bob, "/follow", name="ann")
        until(lambda: "<b>ann</b>: Low tide" in bob.get("/").text)
        assert "no member &#x27;nobody&#x27;" in _fill_in(bob, "/follow", name="nobody").text
        entered = _fill_in(again, "/login", page="/login", username="ann", password=PASSWORD)
        assert "<b>ann</b>: Low tide" in entered.text
        assert "Low tide" not in _fill_in(again, "/logout").text


@pytest.fixture
def flask_site(tmp_path: Path, installed: Installed) -> Iterator[str]:
    """Serve the Flask site with empty databases and yield its address."""
    command = [installed.python, "-m", "flask", "--app", str(EXAMPLES / "flask_site"), "run", "--port", "0"]
    with _serving("flask", command, tmp_path) as url:
        yield url


def test_flask_site_example_session_is_enough_for_feed(flask_site: str) -> None:
    with _stranger(flask_site) as ann, _stranger(flask_site) as bob, _stranger(flask_site) as again:
        assert bob.post("/posts", data={"text": "spam"}).status_code == 403
        for client, name in ((ann, "ann"), (bob, "bob")):
            assert f"Log out {name}" in client.post("/signup", data={"name": name, "password": PASSWORD}).text
        assert "<b>ann</b>: Low tide" in ann.post("/posts", data={"text": "Low tide"}).text
        bob.post("/follow", data={"name": "ann"})
        until(lambda: "<b>ann</b>: Low tide" in bob.get("/").text)
        assert bob.post("/follow", data={"name": "nobody"}).status_code == 404
        assert again.post("/login", data={"name": "ann", "password": "a wrong password"}).status_code == 403
        assert "<b>ann</b>: Low tide" in again.post("/login", data={"name": "ann", "password": PASSWORD}).text
        assert "Low tide" not in again.post("/logout").text


@pytest.fixture
def fastapi_site(tmp_path: Path, installed: Installed) -> Iterator[str]:
    """Serve the FastAPI site with empty databases and yield its address."""
    command = [installed.python, "-m", "uvicorn", "fastapi_site:app", "--app-dir", str(EXAMPLES), "--port", "0"]
    with _serving("fastapi", command, tmp_path) as url:
        yield url


def test_fastapi_site_example_session_is_enough_for_feed(fastapi_site: str) -> None:
    with _stranger(fastapi_site) as ann, _stranger(fastapi_site) as bob, _stranger(fastapi_site) as again:
        assert bob.get("/feed").status_code == 401
        for client, name in ((ann, "ann"), (bob, "bob")):
            assert client.post("/signup", json={"name": name, "password": PASSWORD}).status_code == 204
        assert ann.get("/feed").json() == []
        assert ann.post("/posts", json={"text": "Low tide"}).status_code == 201
        assert bob.post("/follow/ann").status_code == 204
        until(lambda: bob.get("/feed").json() == [{"author": "ann", "text": "Low tide"}])
        assert bob.post("/follow/nobody").status_code == 404
        assert again.post("/login", json={"name": "ann", "password": "a wrong password"}).status_code == 401
        assert again.post("/login", json={"name": "ann", "password": PASSWORD}).status_code == 204
        assert again.get("/feed").json() == [{"author": "ann", "text": "Low tide"}]


KERNEL = """
import asyncio, json, sys

async def main(cells):
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)

asyncio.run(main(json.load(open(sys.argv[1]))["cells"]))
"""
"""Runs the cells of a notebook in order in a running event loop, as Jupyter does."""


def test_notebook_example_counts_posts_by_weekday_and_tag(tmp_path: Path, installed: Installed) -> None:
    store = tmp_path / "shoal.db"
    run(_lively(store))
    command = [installed.python, "-c", KERNEL, str(EXAMPLES / "numbers.ipynb")]
    told = subprocess.run(
        command, env={**os.environ, "NETWORK": f"sqlite:///{store}"}, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert told[0] == "2 posts by 1 members"
    assert [line.split()[0] for line in told[1:8]][::6] == ["Monday", "Sunday"]
    assert sum(int(line.split()[1]) for line in told[1:8]) == 2
    assert told[8:] == [
        "    2  #dawn",
        "    1  #dusk",
        "    1  ann: From #dawn to #dusk",
        "    0  ann: Low tide at #dawn",
    ]


@pytest.mark.parametrize("name", ["numbers.ipynb", "sql.ipynb"])
def test_notebook_example_is_stored_without_outputs(name: str) -> None:
    notebook = json.loads((EXAMPLES / name).read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert {cell["cell_type"] for cell in notebook["cells"]} == {"markdown", "code"}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["outputs"] for cell in code] == [[]] * len(code)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])


def test_report_example_program_counts_tags_and_members(tmp_path: Path, installed: Installed) -> None:
    store = tmp_path / "shoal.db"
    run(_lively(store))
    command = [installed.python, str(EXAMPLES / "report.py"), f"sqlite:///{store}", "ann", "dice"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "       2  #dawn",
        "       1  #dusk",
        "ann: 2 posts, 1 followers, 1 likes received",
        "dice: 0 posts, 0 followers, 0 likes received",
    ]


@contextmanager
def _serving(package: str, command: list[str], folder: Path) -> Iterator[str]:
    """Run a server in a folder and yield its address."""
    if find_spec(package) is None:
        if os.environ.get("CI"):
            pytest.fail(f"{package} is not installed")
        pytest.skip(f"{package} is not installed: pip install {package}")
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield first_url(process)
        finally:
            process.kill()


def _stranger(url: str) -> httpx.Client:
    """Return a client without cookies."""
    return httpx.Client(base_url=url, timeout=60.0, follow_redirects=True)


def _fill_in(client: httpx.Client, action: str, page: str = "/", **fields: str) -> httpx.Response:
    """Send a form of a page of Django, with the token in it."""
    (token, *_) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', client.get(page).text)
    return client.post(action, data={**fields, "csrfmiddlewaretoken": token})


def _after_entering(client: httpx.Client, action: str, **fields: str) -> httpx.Response:
    _fill_in(client, "/enter", name="eve")
    return _fill_in(client, action, **fields)


def until(question: Any, seconds: float = 60.0) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def _bot(installed: Installed, url: str) -> Iterator[None]:
    command = [installed.python, str(EXAMPLES / "dice.py"), url, "dice"]
    with subprocess.Popen(command, env={**os.environ, "BOT_PASSWORD": PASSWORD}) as process:
        try:
            yield
        finally:
            process.kill()


async def _register(store: Path) -> None:
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        for name in ("ann", "dice"):
            await shoal.register(name, PASSWORD)


async def _lively(store: Path) -> None:
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        ann, dice = await shoal.register("ann"), await shoal.register("dice")
        await dice.follow(ann)
        await ann.create("Low tide at #dawn")
        await dice.like(await ann.create("From #dawn to #dusk"))
        await shoal.settle()


def _log_in(url: str, name: str) -> Mastodon:
    keys = Mastodon.create_app("test", api_base_url=url)
    client = Mastodon(*keys, api_base_url=url)
    client.log_in(name, PASSWORD)
    return client


def _answers(client: Mastodon, status: Any) -> list[Any]:
    return [answer for answer in client.status_context(status.id).descendants if answer.account.acct == "dice"]


async def _keyed(store: Path) -> str:
    """Create a network with an event log, one deleted post and one edited post, and return the secret of a server key."""
    async with Shoal.open(f"sqlite:///{store}", event_log="on") as shoal:
        ann = await shoal.register("ann", PASSWORD)
        await ann.delete(await ann.create("a mistake"))
        await ann.update(await ann.create("low tide"), "high tide")
        return (await shoal.server_keys.create("copy", ["server:events"])).secret


@contextmanager
def _following(installed: Installed, secret: str, name: str, *arguments: str) -> Iterator[None]:
    command = [installed.python, str(EXAMPLES / name), *arguments]
    with subprocess.Popen(command, env={**os.environ, "SHOAL_KEY": secret}) as process:
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("suffix", ["db", "duckdb"])
def test_warehouse_example_copies_current_posts_and_continues(
    tmp_path: Path, installed: Installed, suffix: str
) -> None:
    if suffix == "duckdb":
        pytest.importorskip("duckdb")
    copy = tmp_path / f"copy.{suffix}"
    secret = run(_keyed(tmp_path / "shoal.db"))
    with served(tmp_path / "shoal.db") as server:
        with _following(installed, secret, "warehouse.py", server.url, str(copy)):
            until(lambda: _texts(copy) == ["high tide"])
        ann = _log_in(server.url, "ann")
        ann.status_post("ebb")
        with _following(installed, secret, "warehouse.py", server.url, str(copy)):
            until(lambda: _texts(copy) == ["ebb", "high tide"])


def _texts(copy: Path) -> list[str]:
    """Return the texts of the posts in a copy; none while it cannot be read or has no tables yet."""
    try:
        if copy.suffix == ".db":
            rows = sqlite3.connect(copy).execute("SELECT data FROM objects WHERE kind = 'post'").fetchall()
        else:
            # Read a copy of the file: while the file is open here, the other process could not open it.
            with tempfile.TemporaryDirectory() as folder:
                for file in copy.parent.glob(f"{copy.name}*"):
                    shutil.copy(file, folder)
                with importlib.import_module("duckdb").connect(str(Path(folder) / copy.name)) as database:
                    rows = database.execute("SELECT data FROM objects WHERE kind = 'post'").fetchall()
    except Exception:  # noqa: BLE001  # the errors of two databases
        return []
    return sorted(json.loads(data)["text"] for (data,) in rows)


class _Engine(BaseHTTPRequestHandler):
    """A search engine that stores the documents of bulk requests by their versions."""

    documents: ClassVar[dict[str, tuple[int, Any]]] = {}

    @classmethod
    def texts(cls) -> list[str]:
        """Return the texts of all documents, which another thread may change concurrently."""
        return [document["text"] for _, document in list(cls.documents.values()) if document]

    def do_POST(self) -> None:
        sent = [json.loads(line) for line in self.rfile.read(int(self.headers["Content-Length"])).splitlines()]
        items = []
        while sent:
            ((verb, target),) = sent.pop(0).items()
            document = sent.pop(0) if verb == "index" else None
            if target["version"] >= self.documents.get(target["_id"], (0, None))[0]:
                self.documents[target["_id"]] = (target["version"], document)
            items.append({verb: {"_id": target["_id"], "status": 200}})
        body = json.dumps({"items": items}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_search_feed_example_indexes_current_posts(tmp_path: Path, installed: Installed) -> None:
    secret = run(_keyed(tmp_path / "shoal.db"))
    engine = HTTPServer(("127.0.0.1", 0), _Engine)
    Thread(target=engine.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{engine.server_port}"
    try:
        with (
            served(tmp_path / "shoal.db") as server,
            _following(installed, secret, "search_feed.py", server.url, address, str(tmp_path / "cursor.txt")),
        ):
            until(lambda: _Engine.texts() == ["high tide"])
    finally:
        engine.shutdown()
        engine.server_close()
