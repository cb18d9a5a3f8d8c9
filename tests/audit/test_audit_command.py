"""`shoal audit`, with and without a running server."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shoal.cli import main
from tests.server_process import served

Shoal = Callable[..., Result]


@pytest.fixture(params=["alone", "served"])
def shoal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shoal]:
    """Run commands on a store in which Ann was suspended and restored."""
    store = tmp_path / "shoal.db"

    def run(*arguments: str, typed: str = "") -> Result:
        return CliRunner().invoke(main, ["--store", f"sqlite:///{store}", *arguments], input=typed)

    assert run("member", "add", "ann", "--password-stdin", typed="a long password\n").exit_code == 0
    with ExitStack() as stack:
        if request.param == "served":
            stack.enter_context(served(store))
        for act in ("suspend", "restore"):
            assert run("member", act, "ann").exit_code == 0
        assert run("tags", "deny", "tide").exit_code == 0
        assert run("tags", "deny", "tide").exit_code == 0
        yield run


def test_shoal_audit_list_prints_entries_newest_first(shoal: Shoal) -> None:
    lines = [line.split("\t") for line in shoal("audit", "list").stdout.splitlines()]
    assert [line[2:5] for line in lines] == [
        ["-", "tag.denied", "tag:tide"],
        ["-", "member.unsuspended", "member:ann"],
        ["-", "member.suspended", "member:ann"],
    ]
    (older,) = shoal("audit", "list", "--before", lines[1][0]).stdout.splitlines()
    assert older.split("\t") == lines[2]
    (named,) = shoal("audit", "list", "--target", "ann", "--verb", "member.suspended").stdout.splitlines()
    assert named.split("\t") == lines[2]
    assert len(shoal("audit", "list", "--limit", "1").stdout.splitlines()) == 1
    (record,) = map(json.loads, shoal("audit", "list", "--verb", "tag.denied", "--json").stdout.splitlines())
    assert record["target"] == {"kind": "tag", "id": "", "name": "tide"}
    assert record["actor"] is None


def test_shoal_audit_list_target_option_accepts_numeric_username(shoal: Shoal) -> None:
    assert shoal("member", "add", "1984", "--password-stdin", typed="a long password\n").exit_code == 0
    assert shoal("member", "suspend", "1984").exit_code == 0
    (line,) = shoal("audit", "list", "--target", "1984").stdout.splitlines()
    assert line.split("\t")[3:5] == ["member.suspended", "member:1984"]


def test_shoal_audit_list_unknown_actor_or_verb_returns_error(shoal: Shoal) -> None:
    nobody = shoal("audit", "list", "--actor", "zoe")
    assert (nobody.exit_code, "no member 'zoe'" in nobody.stderr) == (1, True)
    assert shoal("audit", "list", "--verb", "member.eaten").exit_code == 2


def test_shoal_audit_export_writes_private_file_and_does_not_overwrite(shoal: Shoal, tmp_path: Path) -> None:
    target = tmp_path / "log.jsonl"
    done = shoal("audit", "export", "--to", str(target))
    assert (done.exit_code, done.stdout) == (0, f"wrote 3 entries to {target}\n")
    records = [json.loads(line) for line in target.read_text().splitlines()]
    assert [record["verb"] for record in records] == ["member.suspended", "member.unsuspended", "tag.denied"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    before = target.read_bytes()
    again = shoal("audit", "export", "--to", str(target))
    assert again.exit_code == 1
    assert target.read_bytes() == before
