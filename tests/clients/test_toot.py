"""toot, the terminal client, against a served Shoal, without a browser."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.api.in_memory_network import picture
from tests.clients.client_programs import toot_command
from tests.clients.server import PASSWORD, Account, Served, until


class Terminal:
    """A terminal with a logged-in toot."""

    def __init__(self, shoal: Served, home: Path, account: Account) -> None:
        self._env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "XDG_CONFIG_HOME": str(home), "LANG": "C.UTF-8"}
        self.account = account
        self.type("login_cli", "-i", shoal.url, "-e", account.address, answers=f"{PASSWORD}\n")

    def type(self, *words: str, answers: str = "") -> str:
        """Return the command's output. It must succeed."""
        done = subprocess.run(
            [*toot_command(), *words],
            env=self._env,
            input=answers,
            capture_output=True,
            text=True,
            timeout=300,
            # Without a controlling terminal, toot reads the password from standard input.
            start_new_session=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def json(self, *words: str) -> Any:
        """Return the command's output, decoded from JSON."""
        return json.loads(self.type(*words, "--json"))


@pytest.fixture(scope="module")
def terminals(shoal: Served, tmp_path_factory: pytest.TempPathFactory) -> tuple[Terminal, Terminal]:
    """Two terminals, ann's and ben's, who follow each other."""
    ann, ben = (Terminal(shoal, tmp_path_factory.mktemp(name), shoal.join(name)) for name in ("ann", "ben"))
    ann.type("follow", ben.account.name)
    ben.type("follow", ann.account.name)
    return ann, ben


Terminals = tuple[Terminal, Terminal]


def test_toot_client_shows_logged_in_account_and_followers(terminals: Terminals) -> None:
    ann, ben = terminals
    assert f"@{ann.account.name}" in ann.type("whoami")
    assert f"@{ben.account.name}" in ann.type("whois", ben.account.name)
    assert "Shoal" in ann.type("instance")
    assert ann.account.name in ann.type("auth")
    assert ben.account.name in ann.type("followers", ann.account.name)
    assert ben.account.name in ann.type("following", ann.account.name)
    assert "✓ Account updated" in ann.type("update-account", "--display-name", "Ann of the pier")
    assert "Ann of the pier" in ben.type("whois", ann.account.name)


def test_toot_client_posts_replies_and_reacts_to_posts(terminals: Terminals) -> None:
    ann, ben = terminals
    post = ann.json("post", "Low tide at #dawn")
    assert "Low tide at #dawn" in ann.type("timelines", "account", ann.account.name, "--no-pager")
    until(lambda: post["id"] in ben.type("timelines", "home", "--no-pager"))
    assert "Low tide" in ben.type("timelines", "public", "--no-pager")
    assert "Low tide" in ben.type("timelines", "tag", "dawn", "--no-pager")
    answer = ben.json("post", "So early", "--reply-to", post["id"])
    thread = ann.type("thread", post["id"])
    assert "Low tide" in thread
    assert "So early" in thread
    for verb in ("favourite", "reblog", "bookmark"):
        assert "✓" in ben.type(verb, post["id"])
    assert ben.account.name in ann.type("reblogged-by", post["id"])
    assert "Low tide" in ben.type("bookmarks")
    assert "Low tide" in ben.type("timelines", "favourites", "--no-pager")
    assert "✓" in ann.type("pin", post["id"])
    assert "✓" in ann.type("unpin", post["id"])
    for verb in ("unfavourite", "unreblog", "unbookmark"):
        assert "✓" in ben.type(verb, post["id"])
    assert "Low tide" in ben.type("status", post["id"])
    assert "✓" in ben.type("delete", answer["id"])
    assert "scheduled" in ann.type("post", "Later", "--scheduled-in", "1h").lower()


def test_toot_client_uploads_and_posts_media(terminals: Terminals, tmp_path: Path) -> None:
    ann, _ = terminals
    (tmp_path / "sand.png").write_bytes(picture(64, 40))
    assert ann.json("upload", str(tmp_path / "sand.png"), "-d", "sand")["description"] == "sand"
    post = ann.json("post", "Look", "-m", str(tmp_path / "sand.png"), "-d", "wet sand")
    assert [media["description"] for media in post["media_attachments"]] == ["wet sand"]


def test_toot_client_votes_in_polls(terminals: Terminals) -> None:
    ann, ben = terminals
    post = ann.json("post", "Which?", "--poll-option", "crab", "--poll-option", "mussel", "--poll-expires-in", "1h")
    assert [option["title"] for option in post["poll"]["options"]] == ["crab", "mussel"]
    ben.type("polls", "vote", post["poll"]["id"], "1")
    shown = ben.json("polls", "show", post["poll"]["id"])
    assert (shown["own_votes"], shown["votes_count"]) == ([1], 1)


def test_toot_client_creates_fills_reads_and_deletes_lists(terminals: Terminals) -> None:
    ann, ben = terminals
    ann.type("lists", "create", "Harbour")
    assert "Harbour" in ann.type("lists", "list")
    ann.type("lists", "add", "Harbour", ben.account.name)
    assert ben.account.name in ann.type("lists", "accounts", "Harbour")
    ben.type("post", "Boats go out")
    until(lambda: "Boats go out" in ann.type("timelines", "list", "Harbour", "--no-pager"))
    ann.type("lists", "remove", "Harbour", ben.account.name)
    ann.type("lists", "delete", "Harbour")
    assert "Harbour" not in ann.type("lists", "list")


def test_toot_client_follows_and_features_tags(terminals: Terminals) -> None:
    ann, ben = terminals
    ben.type("post", "Green #kelp")
    assert "✓" in ann.type("tags", "follow", "kelp")
    assert "kelp" in ann.type("tags", "followed")
    assert "✓" in ann.type("tags", "feature", "kelp")
    assert "kelp" in ann.type("tags", "featured")
    until(lambda: "kelp" in ann.json("search", "#kelp")["hashtags"][0]["name"])
    assert "kelp" in ann.type("tags", "info", "kelp")
    assert "✓" in ann.type("tags", "unfeature", "kelp")
    assert "✓" in ann.type("tags", "unfollow", "kelp")


def test_toot_client_searches_accounts_and_tags(terminals: Terminals) -> None:
    ann, ben = terminals
    ann.type("post", "#eelgrass_a #eelgrass_b #eelgrass_c")
    assert f"@{ben.account.name}" in ann.type("search", ben.account.name)
    until(lambda: "#eelgrass_a, #eelgrass_b, #eelgrass_c" in ann.type("search", "#eelgrass"))


def test_toot_client_reads_and_clears_notifications(terminals: Terminals) -> None:
    ann, ben = terminals
    ben.type("post", f"@{ann.account.name} ahoy")
    until(lambda: "ahoy" in ann.type("notifications", "--mentions"))
    ann.type("notifications", "--clear")
    assert "ahoy" not in ann.type("notifications")


def test_toot_client_mutes_and_blocks_accounts(terminals: Terminals, shoal: Served) -> None:
    ann, _ = terminals
    cat = shoal.join("cat")
    for verb, listing, undo in (("mute", "muted", "unmute"), ("block", "blocked", "unblock")):
        assert "✓" in ann.type(verb, cat.name)
        assert cat.name in ann.type(listing)
        assert "✓" in ann.type(undo, cat.name)


def test_toot_client_logout_removes_account(shoal: Served, tmp_path: Path) -> None:
    dan = Terminal(shoal, tmp_path, shoal.join("dan"))
    assert "✓" in dan.type("logout", f"{dan.account.name}@{urlsplit(shoal.url).netloc}")
    assert dan.account.name not in dan.type("auth")
