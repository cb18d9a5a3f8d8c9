"""`shoal feed`: a member's feed in the terminal, with an explanation of each post's rank."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from shoal import Shoal
from tests.cli.test_cli import shoal


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ann follows Ben, who likes a post of Cyd."""
    path = tmp_path_factory.mktemp("feed") / "shoal.db"

    async def story() -> None:
        async with Shoal.open(f"sqlite:///{path}") as network:
            ann, ben, cyd = [await network.register(name) for name in ("ann", "ben", "cyd")]
            await ann.follow(ben)
            await ben.create("the sea\nin the morning")
            await ben.like(await cyd.create("liked by a friend"))
            await cyd.switch_ranking(on=False)
            await network.settle()

    asyncio.run(story())
    return path


def test_feed_command_home_timeline_is_chronological(store: Path) -> None:
    shown = shoal(store, "feed", "ann")
    assert shown.exit_code == 0
    assert [line.split() for line in shown.output.splitlines()] == [["1", "@ben", "the", "sea", "in", "the", "morning"]]


def test_feed_command_explain_shows_reasons_for_ranked_posts(store: Path) -> None:
    shown = shoal(store, "feed", "ann", "--for-you", "--explain")
    assert shown.exit_code == 0
    assert "friends: liked or shared by someone you follow" in " ".join(shown.output.split())
    assert "friends liked" in shown.output
    told = json.loads(shoal(store, "feed", "ann", "--for-you", "--explain", "--json").output)
    assert {line["author"] for line in told["lines"]} == {"ben", "cyd"}
    for line in told["lines"]:
        assert sum(reason["contribution"] for reason in line["reasons"]) == pytest.approx(line["score"], abs=1e-6)
        assert all(reason["words"] for reason in line["reasons"])


def test_feed_command_for_member_with_ranking_off_is_chronological(store: Path) -> None:
    shown = shoal(store, "feed", "cyd", "--for-you")
    assert "ranking is off for this member" in " ".join(shown.output.split())


def test_feed_command_catch_up_ends_with_message_that_everything_was_seen(store: Path) -> None:
    lines = shoal(store, "feed", "ann", "--catch-up", "--explain").output.splitlines()
    assert lines[0] == "From friends who post rarely"
    assert lines[1].split()[:4] == ["1", "@ben", "the", "sea"]
    assert any("freshness:" in line for line in lines)
    assert lines[-1].startswith("You've seen everything since ")
    told = json.loads(shoal(store, "feed", "ann", "--catch-up", "--json").output)
    assert (told["quiet"], [line["author"] for line in told["lines"]]) == (1, ["ben"])
    assert "ranking is off for this member" in " ".join(shoal(store, "feed", "cyd", "--catch-up").output.split())


def test_feed_command_invalid_arguments_are_reported_in_one_line(store: Path) -> None:
    for arguments, code, words in (
        (("nobody",), 1, "no member 'nobody'"),
        (("ann", "--explain"), 2, "--explain requires --for-you"),
        (("ann", "--for-you", "--catch-up"), 2, "--for-you and --catch-up are mutually exclusive"),
        (("ann", "--limit", "0"), 2, "limit"),
    ):
        refused = shoal(store, "feed", *arguments)
        assert refused.exit_code == code
        assert words in refused.output
