"""Imports of a database that are killed and resumed."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.admin.database_imports.run import MANY_ROWS, ROWS
from shoal.core.model import Member, Post
from shoal.graph.schema import COMMENTS_ON, FOLLOWS, LIKES, POSTED, decode_node
from tests.async_runner import in_loop

MAP = """
issuer = "https://old.example"
[members]
table = "users"
fields = { id = "id", name = "name" }
[follows]
table = "follows"
fields = { follower = "a", followee = "b", created_at = "at" }
[posts]
table = "posts"
fields = { id = "id", author = "user_id", text = "text", created_at = "at" }
[comments]
table = "comments"
fields = { id = "id", author = "user_id", post = "post_id", text = "text", created_at = "at" }
[likes]
table = "likes"
fields = { member = "user_id", post = "post_id", created_at = "at" }
"""
MEMBERS, FOLLOWS_EACH, POSTS, LIKED = ROWS + 500, 9, ROWS + 500, MANY_ROWS + 500
_ENTRIES = "SELECT sum(time) FROM association WHERE alive = -1 AND atype = "
COUNTS = {
    "members": "SELECT count(*) FROM key WHERE space = 'user_name'",
    "follows": f"{_ENTRIES}{FOLLOWS.number}",
    "posts": f"{_ENTRIES}{POSTED.number}",
    "comments": f"{_ENTRIES}{COMMENTS_ON.number}",
    "likes": f"{_ENTRIES}{LIKES.number}",
}
"""Queries that count the objects of each kind. Comments are posts, too."""


def make(path: Path) -> None:
    with closing(sqlite3.connect(path)) as old, old:
        old.executescript(
            """
            CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE follows (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, at TEXT);
            CREATE TABLE posts (id INTEGER PRIMARY KEY, user_id INTEGER, text TEXT, at INTEGER);
            CREATE TABLE comments (id INTEGER PRIMARY KEY, user_id INTEGER, post_id INTEGER, text TEXT, at INTEGER);
            CREATE TABLE likes (id INTEGER PRIMARY KEY, user_id INTEGER, post_id INTEGER, at INTEGER);
            """
        )
        old.executemany("INSERT INTO users VALUES (?, ?)", [(n, f"member{n}") for n in range(MEMBERS)])
        follows = [
            (n * FOLLOWS_EACH + k, n, (n + 7 * k + 1) % MEMBERS, "2024-03-01T00:00:00")
            for n in range(MEMBERS)
            for k in range(FOLLOWS_EACH)
        ]
        old.executemany("INSERT INTO follows VALUES (?, ?, ?, ?)", follows)
        posts = [(n, n % MEMBERS, f"post {n} #tide", 1_714_000_000 + n) for n in range(POSTS)]
        old.executemany("INSERT INTO posts VALUES (?, ?, ?, ?)", posts)
        comments = [(n, (n * 3) % MEMBERS, n, f"comment {n}", 1_715_000_000 + n) for n in range(POSTS)]
        old.executemany("INSERT INTO comments VALUES (?, ?, ?, ?, ?)", comments)
        likes = [(n, n % MEMBERS, (n + n // MEMBERS) % POSTS, 1_716_000_000 + n) for n in range(LIKED)]
        old.executemany("INSERT INTO likes VALUES (?, ?, ?, ?)", likes)


def counts(store: Path) -> dict[str, int]:
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
            return {kind: connection.execute(statement).fetchone()[0] or 0 for kind, statement in COUNTS.items()}
    except sqlite3.Error:
        return dict.fromkeys(COUNTS, 0)


def command(folder: Path, store: Path) -> list[str]:
    source = f"sqlite:///{folder / 'old.db'}"
    return [
        *(sys.executable, "-m", "shoal.cli", "--store", f"sqlite:///{store}"),
        *("import", "--map", str(folder / "map.toml"), "--from", source),
    ]


def kill_during(command: list[str], store: Path, kind: str) -> None:
    """Kill the command during a kind: in the second batch of posts or comments, after the position of the first was stored."""
    enough = ROWS if kind in ("posts", "comments") else 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        while counts(store)[kind] <= enough:
            assert child.poll() is None, f"the import ended before it imported {kind}"
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL, f"the import ended before it was killed during the {kind}"


def content(store: Path) -> dict[str, list[Any]]:
    """Return the network without the ids that depend on the clock."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        nodes = {id_: decode_node(data) for id_, data in connection.execute("SELECT id, data FROM object")}
        names = {id_: node.name for id_, node in nodes.items() if isinstance(node, Member)}
        posts = {id_: node for id_, node in nodes.items() if isinstance(node, Post)}
        texts = {id_: post.text for id_, post in posts.items()}
        edges = connection.execute(
            "SELECT id1, atype, id2, time FROM association WHERE alive = 1 AND atype IN (?, ?)",
            (FOLLOWS.number, LIKES.number),
        )
        return {
            "members": sorted(names.values()),
            "posts": sorted(
                (post.text, names[post.author_id], post.created_at, texts.get(post.parent_id, ""))
                for post in posts.values()
            ),
            "edges": sorted((names[a], kind, names.get(b) or texts[b], at) for a, kind, b, at in edges),
            "keys": sorted(connection.execute("SELECT space, name FROM key")),
        }


@pytest.mark.parametrize(
    "kinds", [["likes", "comments"], pytest.param(list(COUNTS), marks=pytest.mark.deep)], ids=["two", "all"]
)
@in_loop
async def test_database_import_killed_during_a_kind_resumes_to_the_same_network(
    kinds: list[str], tmp_path: Path
) -> None:
    make(tmp_path / "old.db")
    (tmp_path / "map.toml").write_text(MAP)
    whole, killed = tmp_path / "whole.db", tmp_path / "killed.db"
    subprocess.run(command(tmp_path, whole), check=True, stdout=subprocess.DEVNULL)  # noqa: ASYNC221
    for kind in kinds:
        kill_during(command(tmp_path, killed), killed, kind)
    subprocess.run(command(tmp_path, killed), check=True, stdout=subprocess.DEVNULL)  # noqa: ASYNC221
    expected, found = content(whole), content(killed)
    for part, rows in expected.items():
        assert found[part] == rows, part
    assert len(expected["edges"]) == FOLLOWS_EACH * MEMBERS + LIKED
    async with Shoal.open(f"sqlite:///{killed}") as shoal:
        assert (await check(shoal.network, sample=20)).clean
