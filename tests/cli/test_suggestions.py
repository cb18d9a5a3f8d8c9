"""`shoal suggestions`: follow suggestions for a member, with reasons."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from shoal import Shoal
from tests.cli.test_cli import shoal


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ann follows Ben, who follows Cyd; Dot follows all three."""
    path = tmp_path_factory.mktemp("suggestions") / "shoal.db"

    async def story() -> None:
        async with Shoal.open(f"sqlite:///{path}") as network:
            ann, ben, cyd, dot = [await network.register(name) for name in ("ann", "ben", "cyd", "dot")]
            await ann.follow(ben)
            await ben.follow(cyd)
            for other in (ann, ben, cyd):
                await dot.follow(other)
            await network.settle()

    asyncio.run(story())
    return path


def test_suggestions_command_shows_reasons_for_each_suggestion(store: Path) -> None:
    shown = shoal(store, "suggestions", "ann")
    assert shown.exit_code == 0
    words = " ".join(shown.output.split())
    assert "@cyd" in words
    assert "friends: @ben, whom you follow, follows them" in words
    assert "follows_you: follows you" in words
    told = json.loads(shoal(store, "suggestions", "ann", "--json").output)
    assert {line["name"] for line in told["lines"]} == {"cyd", "dot"}
    for line in told["lines"]:
        assert sum(reason["contribution"] for reason in line["reasons"]) == pytest.approx(line["score"], abs=1e-6)
    assert len(json.loads(shoal(store, "suggestions", "ann", "--limit", "1", "--json").output)["lines"]) == 1


def test_suggestions_command_for_member_who_follows_everyone_is_empty(store: Path) -> None:
    assert shoal(store, "suggestions", "dot").output.split() == ["no", "suggestions"]


def test_suggestions_command_invalid_arguments_are_reported_in_one_line(store: Path) -> None:
    for arguments, code, words in (
        (("nobody",), 1, "no member 'nobody'"),
        (("ann", "--limit", "81"), 2, "limit"),
    ):
        refused = shoal(store, "suggestions", *arguments)
        assert refused.exit_code == code
        assert words in refused.output
