"""`Shoal.import_database`: imports that a program runs from the library."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal.sync
from shoal import Shoal
from shoal.core.errors import InvalidInput
from tests.async_runner import in_loop

MAP = """
issuer = "https://old.example"

[members]
table = "users"
fields = { id = "id", name = "name" }

[posts]
table = "notes"
fields = { id = "id", author = "author", text = "text", created_at = "at" }
"""
NOTES = "id,author,text,at\n1,7,Low tide,2025-01-02T03:04:05\n2,8,By nobody,2025-01-02T03:04:06\n"


@pytest.fixture
def import_map(tmp_path: Path) -> Path:
    (tmp_path / "users.csv").write_text("id,name\n7,ann\n", "utf-8")
    (tmp_path / "notes.csv").write_text(NOTES, "utf-8")
    found = tmp_path / "map.toml"
    found.write_text(MAP, "utf-8")
    return found


@in_loop
async def test_library_import_creates_posts_once_and_writes_rejected_rows(tmp_path: Path, import_map: Path) -> None:
    rejected = tmp_path / "rejected.jsonl"
    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db") as network:
        trial = await network.import_database(str(import_map), str(tmp_path), dry_run=True)
        assert (trial.counts["posts"].taken, trial.counts["posts"].refusals) == (1, 1)
        with pytest.raises(Exception, match="ann"):
            await network.member("ann")
        report = await network.import_database(str(import_map), str(tmp_path), rejected=rejected)
        assert report.counts["posts"].taken == 1
        assert "no member has this id" in rejected.read_text("utf-8")
        again = await network.import_database(str(import_map), str(tmp_path))
        assert (again.counts["posts"].taken, again.counts["posts"].there) == (0, 1)
        ann = await network.member("ann")
        assert [entry.post.text for entry in (await ann.posts()).entries] == ["Low tide"]


@in_loop
async def test_library_import_in_shared_network_creates_posts(tmp_path: Path, import_map: Path) -> None:
    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db", shared=True) as network:
        report = await network.import_database(str(import_map), str(tmp_path))
        assert report.counts["members"].taken == 1


def test_library_import_without_await_creates_posts(tmp_path: Path, import_map: Path) -> None:
    with shoal.sync.Shoal.open("memory://") as network:
        assert network.import_database(str(import_map), str(tmp_path)).counts["posts"].taken == 1


@in_loop
async def test_library_import_refuses_wrong_map_and_missing_folders(tmp_path: Path, import_map: Path) -> None:
    async with Shoal.open("memory://") as network:
        with pytest.raises(InvalidInput, match="is not a directory"):
            await network.import_database(str(import_map), str(tmp_path), media=tmp_path / "none")
        with pytest.raises(InvalidInput, match="not valid TOML"):
            await network.import_database(str(tmp_path / "users.csv"), str(tmp_path))
