"""Several processes serve one SQLite file: what one has acknowledged all of them show, and connections pass between them."""

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
from tests.serving import Server, served

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
    """Connections to them, two members, and the address."""
    server, (ann, ben) = serving
    with Connections(server) as to:
        yield to, ann, ben, server.url


def posted(connection: Connection, text: str, **headers: str) -> str:
    """Post; return the id."""
    status, body = connection.ask(
        "POST", "/api/v1/statuses", f"status={quote(text)}".encode(), Content_Type=FORM, **headers
    )
    assert status == 200, body
    return str(json.loads(body)["id"])


def test_what_is_acknowledged_is_seen_at_once_in_every_process(running: Running) -> None:
    to, ann, ben, _ = running
    dice = random.Random(5)
    writer = to.at(OWNER, ann.token)
    # Whoever writes stays where that is done; the others may be anywhere, as the processes have time.
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
            # Its likes are not known: the next one is of a new post.
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


def test_a_connection_goes_to_the_owner_with_its_first_change_and_stays_whole(
    running: Running,
) -> None:
    to, ann, _, _ = running
    connection = to.at(READER, ann.token)
    assert connection.ask("GET", HOME)[0] == 200
    assert connection.place() == READER
    first = posted(connection, "from a reader")
    assert connection.place() == OWNER
    assert json.loads(connection.ask("GET", HOME)[1])[0]["id"] == first


def test_trends_and_tags_are_the_owners(running: Running) -> None:
    to, ann, _, _ = running
    for path in ("/api/v1/trends/tags", "/api/v1/trends/statuses", "/api/v1/tags/tide"):
        connection = to.at(READER, ann.token)
        assert [connection.ask("GET", path)[0] for _ in range(3)] == [200] * 3
        assert connection.place() == OWNER


def large(boundary: str) -> bytes:
    """A form with a picture of 3 MB, so a request in many pieces."""
    dice = random.Random(1)
    picture = dice.randbytes(3 << 20)
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n'
    return head.encode() + b"Content-Type: image/png\r\n\r\n" + picture + f"\r\n--{boundary}--\r\n".encode()


def test_a_large_body_arrives_with_its_connection(running: Running) -> None:
    to, ann, _, _ = running
    connection = to.at(READER, ann.token)
    status, body = connection.ask(
        "POST", "/api/v2/media", large("frontier"), Content_Type="multipart/form-data; boundary=frontier"
    )
    # Every byte was read before it was found to be no picture.
    assert (status, connection.place()) == (422, OWNER), body
    assert connection.ask("GET", HOME)[0] == 200


def test_requests_in_pieces_in_chunks_and_one_behind_the_other(running: Running) -> None:
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
    # Two at once, and a third one while they are answered.
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


def test_live_updates_by_socket_and_by_events(running: Running) -> None:
    to, ann, ben, url = running
    address = f"{url.replace('http', 'ws', 1)}/api/v1/streaming?stream=user&access_token={ben.token}"
    with ExitStack() as stack:
        sockets = [stack.enter_context(connect(address)) for _ in range(4)]
        events = to.at(READER, ben.token)
        events.send("GET", "/api/v1/streaming/user")
        time.sleep(0.3)
        id_ = posted(to.new(ann.token), "live")
        for socket in sockets:
            assert id_ in str(socket.recv(timeout=10))
    heard = b""
    while id_.encode() not in heard:
        piece = events.sock.recv(1 << 16)
        assert piece, "the stream ended"
        heard += piece


def test_limits_are_counted_together(tmp_path: Path) -> None:
    (ann,) = begun(tmp_path / "shoal.db", "ann")
    with served(tmp_path / "shoal.db", "--workers", "2", SHOAL_RATE_LIMITS="true") as server, Connections(server) as to:
        both = [to.at(place, ann.token) for place in (OWNER, READER)]
        answers = [both[turn % 2].ask("GET", f"/api/v1/accounts/{ann.id}")[0] for turn in range(320)]
        # To find the connections has cost a few; the window may end meanwhile, which is seldom.
        assert answers.count(200) <= 301
        assert answers.count(429) >= 19


def test_whoever_is_killed_is_replaced_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
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
                    # Whoever reads beside it is answered all the same, with what had been acknowledged.
                    known = acknowledged[-1]
                    status, _body = reader.ask("GET", f"/api/v1/statuses/{known}")
                    troubles += [f"status {status} while the owner was away"] * (status != 200)
                _until(lambda: process(server, victim) != killed)  # noqa: B023
                if victim == READER:
                    reader = to.at(READER, ben.token)
            _until_more(acknowledged)
        finally:
            done.set()
            writing.join(30)
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
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.01)
