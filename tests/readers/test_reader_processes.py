"""Several processes serve one SQLite file: acknowledged writes are visible in each, and connections are passed on."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from websockets.sync.client import connect

from tests.readers.processes import OWNER, READER, Connection, Connections, Person, begun, process
from tests.server_process import Server, served

TURNS = 120
FORM = "application/x-www-form-urlencoded"
HOME = "/api/v1/timelines/home"


Running = tuple[Connections, Person, Person, str]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, list[Person]]]:
    """Two processes on one file, for tests that do not kill them."""
    store = tmp_path_factory.mktemp("readers") / "shoal.db"
    everybody = begun(store, "ann", "ben")
    with served(store, "--workers", "2") as server:
        yield server, everybody
        assert server.stop() == 0


@pytest.fixture
def running(serving: tuple[Server, list[Person]]) -> Iterator[Running]:
    """Yield connections to the processes, two members, and the address."""
    server, (ann, ben) = serving
    with Connections(server) as to:
        yield to, ann, ben, server.url


def posted(connection: Connection, text: str, **headers: str) -> str:
    """Create a post and return its id."""
    status, body = connection.ask(
        "POST", "/api/v1/statuses", f"status={quote(text)}".encode(), Content_Type=FORM, **headers
    )
    assert status == 200, body
    return str(json.loads(body)["id"])


def test_reader_processes_show_acknowledged_writes_immediately(running: Running) -> None:
    to, ann, ben, _ = running
    dice = random.Random(5)
    writer = to.at(OWNER, ann.token)
    # The writing connection stays at the owner; the others may be at any process, depending on load.
    looking = [to.at(READER, ann.token), writer, to.at(READER, ann.token)]
    posts: list[str] = []
    likes = 0
    for turn in range(TURNS):
        verb = dice.choice(("post", "like", "rename", "delete", "follow"))
        look = dice.choice(looking)
        if verb == "post" or len(posts) < 2:
            posts.append(posted(writer, f"number {turn}"))
            likes = 0
            assert [one["id"] for one in json.loads(look.ask("GET", HOME)[1])][:1] == posts[-1:]
        elif verb == "like":
            likes = 1 - likes
            writer.ask("POST", f"/api/v1/statuses/{posts[-1]}/{'favourite' if likes else 'unfavourite'}")
            shown = json.loads(look.ask("GET", f"/api/v1/statuses/{posts[-1]}")[1])
            assert (shown["favourites_count"], shown["favourited"]) == (likes, bool(likes))
        elif verb == "rename":
            writer.ask(
                "PATCH", "/api/v1/accounts/update_credentials", f"display_name={turn}".encode(), Content_Type=FORM
            )
            assert json.loads(look.ask("GET", f"/api/v1/accounts/{ann.id}")[1])["display_name"] == str(turn)
        elif verb == "delete":
            gone = posts.pop()
            likes = 0
            # The number of likes is unknown, so the next like uses a new post.
            assert look.ask("GET", f"/api/v1/statuses/{gone}")[0] == 200
            writer.ask("DELETE", f"/api/v1/statuses/{gone}")
            assert look.ask("GET", f"/api/v1/statuses/{gone}")[0] == 404
            posts.append(posted(writer, f"instead of {gone}"))
        else:
            followers = f"/api/v1/accounts/{ben.id}/followers"
            writer.ask("POST", f"/api/v1/accounts/{ben.id}/unfollow")
            assert ann.id not in [one["id"] for one in json.loads(look.ask("GET", followers)[1])]
            writer.ask("POST", f"/api/v1/accounts/{ben.id}/follow")
            assert ann.id in [one["id"] for one in json.loads(look.ask("GET", followers)[1])]
    assert writer.place() == OWNER


def read_at_reader(to: Connections, token: str) -> Connection:
    """Return a connection on which a reader has answered. While the reader is much busier than the owner, it passes reads on."""
    deadline = time.monotonic() + 60
    while True:
        connection = to.at(READER, token)
        assert connection.ask("GET", HOME)[0] == 200
        if connection.place() == READER:
            return connection
        assert time.monotonic() < deadline, "the reader passes each connection on"


def test_reader_connection_moves_to_owner_with_first_write(
    running: Running,
) -> None:
    to, ann, _, _ = running
    connection = read_at_reader(to, ann.token)
    first = posted(connection, "from a reader")
    assert connection.place() == OWNER
    assert json.loads(connection.ask("GET", HOME)[1])[0]["id"] == first


def test_reader_process_passes_trend_and_tag_requests_to_owner(running: Running) -> None:
    to, ann, _, _ = running
    for path in ("/api/v1/trends/tags", "/api/v1/trends/statuses", "/api/v1/tags/tide"):
        connection = to.at(READER, ann.token)
        assert [connection.ask("GET", path)[0] for _ in range(3)] == [200] * 3
        assert connection.place() == OWNER


def large(boundary: str) -> bytes:
    """Return a form with a picture of 3 MB, a request of many pieces."""
    dice = random.Random(1)
    picture = dice.randbytes(3 << 20)
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n'
    return head.encode() + b"Content-Type: image/png\r\n\r\n" + picture + f"\r\n--{boundary}--\r\n".encode()


def test_upload_with_large_body_is_passed_from_reader_to_owner(running: Running) -> None:
    to, ann, _, _ = running
    connection = to.at(READER, ann.token)
    status, body = connection.ask(
        "POST", "/api/v2/media", large("frontier"), Content_Type="multipart/form-data; boundary=frontier"
    )
    # The whole body was read before the picture was rejected.
    assert (status, connection.place()) == (422, OWNER), body
    assert connection.ask("GET", HOME)[0] == 200


def test_reader_process_answers_fragmented_chunked_and_pipelined_requests(running: Running) -> None:
    to, ann, _, _ = running
    connection = to.at(READER, ann.token)
    # Byte by byte.
    for byte in connection.request("GET", HOME):
        connection.sock.sendall(bytes([byte]))
    assert connection.receive()[0] == 200
    connection = to.at(READER, ann.token)
    head = connection.request(
        "POST", "/api/v1/statuses", Content_Type=FORM, Transfer_Encoding="chunked", Expect="100-continue"
    ).replace(b"Content-Length: 0\r\n", b"")
    connection.sock.sendall(head)
    assert connection.receive()[0] == 100
    connection.sock.sendall(b"c\r\nstatus=chunk\r\n0\r\n\r\n")
    status, body = connection.receive()
    assert (status, json.loads(body)["content"]) == (200, "<p>chunk</p>")
    connection = to.at(READER, ann.token)
    # Two pipelined requests, and a third one during their answers.
    text = b"status=pipelined"
    both = connection.request("GET", HOME) + connection.request("POST", "/api/v1/statuses", text, Content_Type=FORM)
    connection.sock.sendall(both)
    connection.send("GET", HOME)
    before, made, after = (connection.receive() for _ in range(3))
    assert [before[0], made[0], after[0]] == [200, 200, 200]
    ids = [[one["id"] for one in json.loads(page)] for page in (before[1], after[1])]
    assert json.loads(made[1])["id"] not in ids[0]
    assert json.loads(made[1])["id"] == ids[1][0]
    connection = to.at(READER, ann.token)
    for _ in range(3):
        connection.send("GET", HOME)
    assert [connection.receive()[0] for _ in range(3)] == [200, 200, 200]


def until_told(events: Connection, word: bytes) -> None:
    """Read a stream up to a word."""
    heard = b""
    for _ in range(100):
        piece = events.sock.recv(1 << 16)
        assert piece, "the stream ended"
        heard += piece
        if word in heard:
            return
    raise AssertionError(f"{word!r} is not in {heard[-1_000:]!r}")


def test_streaming_by_websocket_and_sse_delivers_posts_from_every_process(running: Running) -> None:
    to, ann, ben, url = running
    address = f"{url.replace('http', 'ws', 1)}/api/v1/streaming?stream=user&access_token={ben.token}"
    with ExitStack() as stack:
        sockets = [stack.enter_context(connect(address, open_timeout=60)) for _ in range(4)]
        events = to.at(READER, ben.token)
        events.send("GET", "/api/v1/streaming/user")
        until_told(events, b":)")
        id_ = posted(to.new(ann.token), "live")
        for socket in sockets:
            assert id_ in str(socket.recv(timeout=60))
        until_told(events, id_.encode())


def test_rate_limits_are_shared_between_processes(tmp_path: Path) -> None:
    (ann,) = begun(tmp_path / "shoal.db", "ann")
    # A window of a day, because one of the usual five minutes may end during the test.
    limits = '{"api": "300/24h"}'
    with (
        served(tmp_path / "shoal.db", "--workers", "2", SHOAL_RATE_LIMITS="true", SHOAL_LIMITS=limits) as server,
        Connections(server) as to,
    ):
        both = [to.at(place, ann.token) for place in (OWNER, READER)]
        answers = [both[turn % 2].ask("GET", f"/api/v1/accounts/{ann.id}")[0] for turn in range(320)]
        # Opening the connections used a few requests, and the processes may exceed the limit by one.
        assert answers.count(200) <= 301
        assert answers.count(429) >= 19


def test_killed_server_process_is_replaced_and_acknowledged_posts_survive(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    ann, ben = begun(store, "ann", "ben")
    acknowledged: list[str] = []
    done = threading.Event()
    troubles: list[str] = []

    def write(to: Connections) -> None:
        number = 0
        connection = None
        while not done.is_set():
            number += 1
            try:
                connection = connection or to.new(ann.token)
                acknowledged.append(posted(connection, f"number {number}", Idempotency_Key=f"n{number}"))
            except (AssertionError, OSError):
                connection = None
                time.sleep(0.01)

    with served(store, "--workers", "2") as server, Connections(server) as to:
        writing = threading.Thread(target=write, args=(to,))
        reader = to.at(READER, ben.token)
        writing.start()
        try:
            for victim in (OWNER, READER, OWNER):
                _until_more(acknowledged)
                killed = process(server, victim)
                os.kill(killed, signal.SIGKILL)
                if victim == OWNER:
                    # Readers still answer, with all acknowledged data.
                    known = acknowledged[-1]
                    status, _body = reader.ask("GET", f"/api/v1/statuses/{known}")
                    troubles += [f"status {status} while the owner was away"] * (status != 200)
                _until(lambda: process(server, victim) != killed)  # noqa: B023
                if victim == READER:
                    reader = to.at(READER, ben.token)
            _until_more(acknowledged)
        finally:
            done.set()
            writing.join(60)
        assert troubles == []
        for place in (OWNER, READER):
            connection = to.at(place, ben.token)
            missing = [id_ for id_ in acknowledged if connection.ask("GET", f"/api/v1/statuses/{id_}")[0] != 200]
            assert missing == []
        assert server.stop() == 0


def _until_more(acknowledged: list[str]) -> None:
    reached = len(acknowledged) + 20
    _until(lambda: len(acknowledged) >= reached)


def _until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "the condition timed out"
        time.sleep(0.01)
