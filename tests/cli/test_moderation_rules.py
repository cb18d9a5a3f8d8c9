"""`shoal moderation`: rules and bulk actions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal import Shoal
from shoal.cli import main
from tests.async_runner import run


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/shoal.db"

    async def make() -> None:
        async with Shoal.open(url) as shoal:
            ann = await shoal.register("ann")
            for text in ("Buy my boat", "Buy  my BOAT today", "ham"):
                await ann.create(text)
            await shoal.settle()

    run(make())
    return url


def shoal(store: str, *arguments: str, status: int = 0) -> str:
    done = CliRunner().invoke(main, ["--store", store, "moderation", *arguments])
    assert done.exit_code == status, done.output
    return done.output


def test_rule_commands_create_try_arm_change_and_delete(store: str) -> None:
    assert "created rule 1" in shoal(
        store, "rules", "add", "Boats", "--word", "buy my boat", "--younger-than-days", "7"
    )
    assert "do a dry run of rule 1" in shoal(store, "rules", "state", "1", "armed", status=1)
    tried = shoal(store, "rules", "try", "1", "--days", "1")
    assert "checked 3 posts" in tried
    assert "rule 1 (Boats): 2 hits by 1 members; 0 by trusted members, 0 hidden by moderators since" in tried
    assert "@ann\tBuy my BOAT today" in tried
    assert shoal(store, "rules", "state", "1", "armed") == "rule 1 is armed now\n"
    assert "1\tarmed\thold\t" in shoal(store, "rules", "list")
    assert "dry run now" in shoal(store, "rules", "change", "1", "Boats", "--word", "boat", "--reject", "No boats")
    listed = shoal(store, "rules", "list")
    assert "1\tdry run\treject\t-\tBoats\twords: boat" in listed
    assert shoal(store, "rules", "delete", "1") == "deleted rule 1\n"
    assert "there is no moderation rule 1" in shoal(store, "rules", "delete", "1", status=1)


def test_bulk_commands_preview_apply_and_undo(store: str) -> None:
    preview = shoal(store, "bulk", "preview", "hide", "--word", "boat", "--member", "ann", "--since", "2024-05-01")
    assert preview.startswith("2 posts; 3 posts were read")
    assert "@ann\tBuy my boat" in preview
    found = re.search(r"apply (\d+)`", preview)
    assert found is not None
    action = found[1]
    assert "changing 2 posts" in shoal(store, "bulk", "apply", action, "--reason", "spam")
    assert f"{action}\thide\tapplied\t2\t2\t-" in shoal(store, "bulk", "list")
    assert "undoing" in shoal(store, "bulk", "undo", action)
    assert f"{action}\thide\tundone\t2\t0\t-" in shoal(store, "bulk", "show", action)
    assert "at least one of" in shoal(store, "bulk", "preview", "hide", status=1)
    assert "no member 'zoe'" in shoal(store, "bulk", "preview", "hide", "--member", "zoe", status=1)
