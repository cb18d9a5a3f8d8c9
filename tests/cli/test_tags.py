"""`shoal tags`: the cloud in the terminal and as a picture, single tags, and admin rules."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from shoal import Shoal
from shoal.app.network import open_network
from shoal.cli import main, stores, tags
from shoal.settings import Settings
from shoal.tagcloud.contract import DAY_MS
from shoal.tagcloud.memory import MemoryCloud
from shoal.tagcloud.reader import TagCloud
from tests.async_runner import run
from tests.tagcloud.factories import NOW, count_into, uses


@pytest.fixture
def cloud() -> MemoryCloud:
    """The cloud in which the network of a test counts its tags."""
    return MemoryCloud()


@pytest.fixture
def store(tmp_path: Path, cloud: MemoryCloud, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with matching posts and cloud; the commands are patched to read this cloud."""
    path = tmp_path / "shoal.db"

    async def make() -> None:
        async with Shoal.open(f"sqlite:///{path}") as shoal:
            ann = await shoal.register("ann")
            await ann.create("#LowTide #dawn")
            await ann.create("#LowTide")
            await shoal.settle()

    @asynccontextmanager
    async def network(settings: Settings, **options: Any) -> AsyncIterator[Any]:
        async with open_network(settings, **options) as opened:
            known = TagCloud(cloud, clock=lambda: NOW)
            yield replace(opened, tags=known, reads=replace(opened.reads, tags=known))

    @asynccontextmanager
    async def alone(_settings: Settings) -> AsyncIterator[TagCloud]:
        yield TagCloud(cloud, clock=lambda: NOW)

    run(make())
    monkeypatch.setattr(tags, "open_network", network)
    monkeypatch.setattr(stores, "open_network", network)
    monkeypatch.setattr(tags, "open_cloud", alone)
    return path


@pytest.fixture
def filled(store: Path, cloud: MemoryCloud) -> Path:
    """A store whose cloud has tags of several scripts and ages."""
    run(
        count_into(
            cloud,
            [
                *uses("LowTide", 30),
                *uses("dawn", 9, ago=3 * DAY_MS),
                *uses("غروب 大自然", 4),
                *uses("old", 2, ago=30 * DAY_MS),
            ],
        )
    )
    return store


def shoal(store: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["--store", f"sqlite:///{store}", "tags", *arguments], env={"COLUMNS": "72"})


def told(store: Path, *arguments: str) -> str:
    """Return the output of a command that must succeed."""
    done = shoal(store, *arguments)
    assert done.exit_code == 0, done.output
    return done.output


def test_tags_command_cloud_lists_words_alphabetically_with_bars_by_weight(filled: Path) -> None:
    shown = told(filled)
    words, bars = shown.split("uses", 1)
    assert re.split(r"[\s\u00a0]+", words.strip()) == ["dawn", "LowTide", "old", "غروب", "大自然"]
    lines = [line.split() for line in bars.strip().splitlines()]
    assert [line[0] for line in lines] == ["#LowTide", "#dawn", "#غروب", "#大自然", "#old"] or lines[2][0] == "#大自然"
    assert (lines[0][1], lines[0][2]) == ("30", "↑")
    assert lines[0][3].count("█") > 3 * lines[1][3].count("█")
    assert all(cell_len(line) <= 72 for line in shown.splitlines())


def test_tags_command_without_subcommand_shows_cloud(filled: Path) -> None:
    assert told(filled) == told(filled, "cloud")
    assert told(filled, "--order", "week", "--limit", "2") == told(filled, "cloud", "--order", "week", "--limit", "2")
    assert "old" not in told(filled, "--order", "rising")
    assert "merge" in told(filled, "--help")


def test_tags_command_json_contains_every_number(filled: Path) -> None:
    shown = msgspec.json.decode(told(filled, "--json", "--limit", "1"))
    assert (shown["order"], shown["version"], shown["words"][0]["form"]) == ("all", 1, "LowTide")
    one = msgspec.json.decode(told(filled, "show", "dawn", "--json"))
    assert (one["tag"]["uses"], [tag["name"] for tag in one["related"]]) == (9, ["lowtide"])


def test_tags_command_on_empty_cloud_reports_no_tags(store: Path) -> None:
    assert told(store) == "no tags yet\n"
    assert "rising" in told(store, "--order", "rising")
    assert told(store, "rules") == "no rules\n"


def test_tags_command_show_lists_days_reasons_and_related_tags(filled: Path) -> None:
    shown = told(filled, "show", "#LOWTIDE")
    assert "#LowTide  30 uses" in shown
    assert re.search(r"█████\n", shown)
    assert "30 uses by 30 members, today and yesterday" in shown
    assert "3% of them by the loudest" in shown
    assert all(cell_len(line) <= 72 for line in shown.splitlines())
    assert re.search(r"#dawn +\d+%", shown)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "unheard"), "#unheard is not in the tag cloud"),
        (("show", "no tag"), "a tag is 1 to 100 letters"),
        (("deny", "123"), "a tag is 1 to 100 letters"),
        (("merge", "dawn", "#Dawn"), "#dawn cannot be merged into itself"),
        (("picture", "cloud.png"), "must end in .svg"),
    ],
)
def test_tags_command_invalid_tag_or_file_is_reported_in_one_line(
    filled: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = shoal(filled, *arguments)
    assert (done.exit_code, done.stderr.count("\n"), words in done.stderr) == (1, 1, True), done.stderr


def test_tags_command_invalid_options_are_refused(filled: Path) -> None:
    for arguments in (("--order", "best"), ("--limit", "0"), ("--limit", "201"), ("nothing",)):
        assert shoal(filled, *arguments).exit_code == 2


def test_tags_command_on_missing_store_does_not_create_it(tmp_path: Path) -> None:
    for command in (("cloud",), ("rules",), ("deny", "x"), ("show", "x")):
        done = shoal(tmp_path / "none.db", *command)
        assert (done.exit_code, "no store at" in done.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_tags_command_rules_take_effect_immediately(filled: Path) -> None:
    assert told(filled, "deny", "#LowTide") == "#lowtide\tis denied\n"
    assert "LowTide" not in told(filled)
    assert shoal(filled, "show", "lowtide").exit_code == 1
    assert told(filled, "merge", "old", "dawn") == "#old\tcounts as #dawn\n"
    assert told(filled, "rules").splitlines() == ["#lowtide\tis denied", "#old\tcounts as #dawn"]
    assert "with #old" in told(filled, "show", "old")
    assert told(filled, "allow", "lowtide") == "#lowtide\tis shown, and counts for itself\n"
    assert told(filled, "unmerge", "old") == "#old\tis shown, and counts for itself\n"
    assert told(filled, "rules") == "no rules\n"


def test_tags_command_picture_is_written_as_svg(filled: Path, tmp_path: Path) -> None:
    target = tmp_path / "cloud.svg"
    assert told(filled, "picture", str(target), "--limit", "3") == f"3 tags written to {target}\n"
    root = ET.parse(target)  # noqa: S314  # a trusted file
    assert len(list(root.iter("{http://www.w3.org/2000/svg}a"))) == 3
