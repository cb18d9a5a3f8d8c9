"""Backup and restore: all data is restored on any engine, and damage is detected."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner, Result

from shoal import Shoal
from shoal.admin.backups import restore as restoring
from shoal.admin.backups.prune import Keeping, prune
from shoal.admin.backups.repository import MEDIA, BackupDamaged, BackupRepository, SavedTagRule
from shoal.admin.backups.restore import make_whole, restore_tag_rules
from shoal.admin.backups.verify import verify
from shoal.admin.consistency.check import check
from shoal.admin.report import nothing
from shoal.admin.unfinished import check_restored
from shoal.app.network import open_network
from shoal.cli import main
from shoal.core.errors import InvalidInput, Unavailable
from shoal.graph.bulk import KeyRow
from shoal.graph.contract import Store
from shoal.graph.shard_map import parse_shards
from shoal.media.store import RAW, MediaStore
from shoal.settings import Settings, build
from shoal.tagcloud.contract import TagRule
from shoal.tagcloud.merger import Amendment
from tests.async_runner import in_loop, run
from tests.backups.backup_helpers import FAST, backed_up, brought_back, opened, repository
from tests.flows.media.test_media_posts import picture
from tests.flows.members import register
from tests.ops.shard_move_network import Databases, contents_of, mover, populate, process
from tests.ops.test_network_moves import events_of, network_with_everything

ENGINES = ("sqlite", "three sqlite", "postgres", "two postgres")


async def stores(engine: str, folder: Path, databases: Databases) -> str | dict[str, str]:
    """Return the setting `store` of new stores."""
    count = {"sqlite": 1, "postgres": 1, "three sqlite": 3, "two postgres": 2}[engine]
    urls = [
        f"sqlite:///{folder}/{engine.replace(' ', '-')}-{at}.db" if "sqlite" in engine else await databases.one()
        for at in range(count)
    ]
    ranges = {1: ("0-63",), 2: ("0-31", "32-63"), 3: ("0-9", "10-40", "41-63")}[count]
    return urls[0] if count == 1 else dict(zip(ranges, urls, strict=True))


def settings_of(store: str | dict[str, str], folder: Path) -> Settings:
    return build(store=store, media=f"file://{folder}/media", tags="memory://")


@pytest.mark.parametrize(
    ("here", "there"),
    [
        *((engine, engine) for engine in ENGINES),
        ("sqlite", "two postgres"),
        ("two postgres", "sqlite"),
        ("three sqlite", "postgres"),
    ],
)
@in_loop
async def test_backup_is_restored_to_same_or_other_engine(here: str, there: str, tmp_path: Path) -> None:
    databases = Databases()
    (source := tmp_path / "source").mkdir()
    (target := tmp_path / "target").mkdir()
    settings = settings_of(await stores(here, source, databases), source)
    place = repository(tmp_path / "backups")
    async with opened(settings.store) as graph:
        await network_with_everything(graph)
        made = await backed_up(settings, place)
        held = await everything_in(graph)
        events = await events_of(graph)
    new = settings_of(await stores(there, target, databases), target)
    done = await brought_back(place, new)
    assert (done.events, done.parked, done.faults) == (2, 1, [])
    assert done.rows == sum(made.rows(table) for table in ("objects", "associations", "counts", "keys"))
    async with opened(new.store) as graph:
        restored = await everything_in(graph)
        assert await events_of(graph) == events
        await check_restored(graph)
    assert held == restored


async def everything_in(graph: Store) -> tuple[list[object], list[KeyRow]]:
    """Return all rows except the key with the backup time, which is written after the snapshot."""
    *rows, keys = await contents_of(graph)
    return rows, [row for row in cast("list[KeyRow]", keys) if row.space != "backup"]


@in_loop
async def test_backup_restore_recovers_posts_media_tag_rules_and_push_key(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shoal.db"
    place = repository(tmp_path / "backups")
    async with Shoal.open(url) as shoal:
        ann, bob = await register(shoal, "ann", "bob")
        await bob.follow(ann)
        post = await ann.create("look #tide #mud", media=[await ann.upload(picture())])
        await ann.update_profile(avatar=picture((3, 3)))
        await bob.like(post.id)
        await shoal.settle()
        await shoal.network.amend_tags(Amendment(rules=[TagRule("mud", denied=True)]))
        made = await backed_up(shoal.network.settings, place)
        assert made.tag_rules == (SavedTagRule("mud", denied=True, target=""),)
        assert (made.lacks, made.media.files) == (0, made.media.new_files)
        files = _files(tmp_path / "shoal.db.media")
        late = await ann.create("too late")
    key = (tmp_path / "shoal.db.push-key").read_text()
    _lose(tmp_path)
    assert (await verify(place, "", FAST, nothing)).faults == 0
    settings = build(store=url)
    done = await brought_back(place, settings)
    assert (done.media_files, done.faults) == (made.media.files, [])
    assert _files(tmp_path / "shoal.db.media") == files
    assert (tmp_path / "shoal.db.push-key").read_text() == key
    async with open_network(settings, background=False) as network:
        await restore_tag_rules(network, made)
        report = await make_whole(network, nothing)
        assert [line for line in report.invariants if line.found and line.name not in {"cloud", "search"}] == []
        assert (await network.tag_store.rules())["mud"].denied
    async with Shoal.open(url) as shoal:
        assert (await check(shoal.network, young=-1.0)).clean
        bob = await shoal.member(bob.id)
        assert [entry.id for entry in (await bob.home()).entries] == [post.id]
        assert await shoal.network.store.obj_get([late.id]) == {}
        assert (await bob.home()).entries[0].likes == 1


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _lose(folder: Path) -> None:
    for path in folder.glob("shoal.db*"):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@in_loop
async def test_backup_copies_only_new_media_and_prune_deletes_unreferenced_media(tmp_path: Path) -> None:
    place = repository(tmp_path / "backups")
    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db") as shoal:
        (ann,) = await register(shoal, "ann")
        old = await ann.upload(picture())
        await ann.create("old", media=[old])
        first = await backed_up(shoal.network.settings, place)
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "backups" / MEDIA).rglob("*")}
        kept = await ann.upload(picture((9, 7)))
        gone = await ann.upload(picture((8, 5)))
        second = await backed_up(shoal.network.settings, place)
        new = _files(tmp_path / "backups" / MEDIA).keys() - {
            str(path.relative_to(tmp_path / "backups" / MEDIA)) for path in before
        }
        assert second.media.new_files == len(new) > 0
        size = sum((tmp_path / "backups" / MEDIA / name).stat().st_size for name in new)
        assert second.media.new_bytes == size == kept.stored + gone.stored
        assert second.media.bytes == first.media.bytes + size
        assert all(path.is_dir() or path.stat().st_mtime_ns == mtime for path, mtime in before.items())
        await ann.discard(gone)
        await shoal.settle()
        third = await backed_up(shoal.network.settings, place)
        assert (third.media.new_files, third.media.files) == (0, second.media.files - _count(gone, new))
    pruned = await prune(place, Keeping(newest=2), nothing)
    # The second generation references the media that were deleted later.
    assert (pruned.generations, pruned.media_files) == ((first.generation,), 0)
    pruned = await prune(place, Keeping(newest=1), nothing)
    assert (pruned.generations, pruned.media_files) == ((second.generation,), _count(gone, new))
    assert await place.generations() == [third.generation]
    assert (await verify(place, "", FAST, nothing)).faults == 0
    assert len(_files(tmp_path / "backups" / MEDIA)) == third.media.files


def _count(media: object, names: object) -> int:
    return sum(f"/{media.id}-" in name for name in names)  # type: ignore[attr-defined]


@in_loop
async def test_backup_with_missing_media_reports_them_and_can_be_restored(
    tmp_path: Path,
) -> None:
    place = repository(tmp_path / "backups")
    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db") as shoal:
        (ann,) = await register(shoal, "ann")
        media = await ann.upload(picture())
        await ann.create("look", media=[media])
        await shoal.settle()
        await shoal.network.media.remove([media.key])
        made = await backed_up(shoal.network.settings, place)
    assert (made.lacks, made.lacking) == (1, (media.key,))
    settings = build(store=f"sqlite:///{tmp_path}/new.db")
    await brought_back(place, settings)
    async with open_network(settings, background=False) as network:
        report = await make_whole(network, nothing)
        assert report["files"].found > 0
        assert (await check(network)).clean


async def _made(folder: Path) -> BackupRepository:
    """Return a repository with a single generation of a small network with a picture."""
    place = repository(folder / "backups")
    async with Shoal.open(f"sqlite:///{folder}/shoal.db") as shoal:
        (ann,) = await register(shoal, "ann")
        await ann.create("look", media=[await ann.upload(picture())])
        await shoal.settle()
        await backed_up(shoal.network.settings, place)
    return place


def _spoil(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("table", ["objects", "associations", "counts", "keys", "media", "push-key"])
@in_loop
async def test_backup_with_damaged_rows_fails_verification_and_restore(table: str, tmp_path: Path) -> None:
    place = await _made(tmp_path)
    (generation,) = await place.generations()
    _spoil(next((tmp_path / "backups" / generation).glob(f"{table}*")))
    found = await verify(place, "", FAST, nothing)
    assert found.faults == 1
    assert "hash" in found.examples[0]
    settings = build(store=f"sqlite:///{tmp_path}/new.db")
    with pytest.raises(BackupDamaged, match=table):
        await brought_back(place, settings)
    async with opened(settings.store) as graph:
        rows, keys = await everything_in(graph)
        assert not any(rows)
        assert keys == []
    assert not (tmp_path / "new.db.push-key").exists()
    other = "keys" if table == "counts" else "counts"
    (tmp_path / "backups" / generation / f"{other}-00-00001.gz").unlink()
    assert (await verify(place, "", FAST, nothing)).faults == 2


@in_loop
async def test_backup_restore_skips_damaged_media_file(tmp_path: Path) -> None:
    place = await _made(tmp_path)
    damaged = next(path for path in (tmp_path / "backups" / MEDIA).rglob("*") if path.is_file())
    _spoil(damaged)
    key = str(damaged.relative_to(tmp_path / "backups" / MEDIA))
    assert (await verify(place, "", FAST, nothing, quick=True)).faults == 0
    assert (await verify(place, "", FAST, nothing)).examples == [f"the file {key} is damaged: its hash does not match"]
    settings = build(store=f"sqlite:///{tmp_path}/new.db")
    done = await brought_back(place, settings)
    assert done.faults == [f"the file {key} is damaged or missing"]
    assert done.media_files == (await place.manifest()).media.files - 1
    assert not (tmp_path / "new.db.media" / key).exists()
    damaged.unlink()
    assert (await verify(place, "", FAST, nothing, quick=True)).examples == [f"the file {key} is missing"]


@in_loop
async def test_backup_restore_into_used_store_is_refused(tmp_path: Path) -> None:
    place = await _made(tmp_path)
    with pytest.raises(InvalidInput, match="not empty"):
        await brought_back(place, build(store=f"sqlite:///{tmp_path}/shoal.db"))
    async with Shoal.open(f"sqlite:///{tmp_path}/new.db") as shoal:
        await shoal.settle()
        with pytest.raises(Unavailable, match="in use"):
            await brought_back(place, build(store=f"sqlite:///{tmp_path}/new.db"))
    # A different push key would invalidate the members' push subscriptions.
    (tmp_path / "third.db.push-key").write_text("another")
    with pytest.raises(InvalidInput, match="move the file away"):
        await brought_back(place, build(store=f"sqlite:///{tmp_path}/third.db"))
    (tmp_path / "third.db.push-key").write_bytes((tmp_path / "shoal.db.push-key").read_bytes())
    await brought_back(place, build(store=f"sqlite:///{tmp_path}/third.db"))


@in_loop
async def test_backup_restore_interrupted_resumes_only_with_same_generation(tmp_path: Path) -> None:
    place = await _made(tmp_path)
    (tmp_path / "shoal.db.push-key").unlink()
    settings = build(store=f"sqlite:///{tmp_path}/new.db")
    first = await place.manifest()
    second = await backed_up(build(store=f"sqlite:///{tmp_path}/shoal.db"), place)

    class Interrupted(Exception):
        pass

    class Stopping(type(FAST)):  # type: ignore[misc]
        spent = 0

        async def spend(self, size: int) -> None:
            self.spent += 1
            if self.spent > len(first.parts) + 1:
                raise Interrupted

    with pytest.raises(Interrupted):
        await brought_back(place, settings, first.generation, Stopping(None))
    async with opened(settings.store) as graph:
        with pytest.raises(Unavailable, match="is unfinished"):
            await check_restored(graph)
    with pytest.raises(InvalidInput, match="another generation"):
        await brought_back(place, settings, second.generation)
    await brought_back(place, settings, first.generation)
    async with opened(settings.store) as graph, opened(f"sqlite:///{tmp_path}/shoal.db") as old:
        await check_restored(graph)
        assert await everything_in(graph) == await everything_in(old)


def _restored_by_command(place: Path, store: str, *options: str) -> Result:
    command = ["--store", store, "restore", "--from", str(place), *options]
    return CliRunner().invoke(main, command)


async def _has_rule(store: str) -> bool:
    """Return whether the tag of `_with_rule` is denied, in a store that servers may use."""
    async with open_network(build(store=store), background=False) as network:
        await check_restored(network.store)
        rules = await network.tag_store.rules()
        return "mud" in rules and rules["mud"].denied


async def _with_rule(folder: Path) -> None:
    """Back up a network with a rule on a tag."""
    async with Shoal.open(f"sqlite:///{folder}/shoal.db") as shoal:
        await register(shoal, "ann")
        await shoal.network.amend_tags(Amendment(rules=[TagRule("mud", denied=True)]))
        await backed_up(shoal.network.settings, repository(folder / "backups"))
    (folder / "shoal.db.push-key").unlink()


@pytest.mark.parametrize("options", [(), ("--no-check",)])
def test_shoal_restore_restores_tag_rules(options: tuple[str, ...], tmp_path: Path) -> None:
    run(_with_rule(tmp_path))
    store = f"sqlite:///{tmp_path}/new.db"
    assert _restored_by_command(tmp_path / "backups", store, *options).exit_code == 0
    assert run(_has_rule(store))


@pytest.mark.parametrize("step", ["restore_tag_rules", "make_whole"])
def test_shoal_restore_interrupted_in_last_steps_blocks_server_start_and_resumes(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(_with_rule(tmp_path))
    store = f"sqlite:///{tmp_path}/new.db"

    async def interrupted(*_: object) -> None:
        raise Unavailable("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr(restoring, step, interrupted)
        assert _restored_by_command(tmp_path / "backups", store).exit_code == 1
    with pytest.raises(Unavailable, match="is unfinished"):
        run(_has_rule(store))
    assert _restored_by_command(tmp_path / "backups", store).exit_code == 0
    assert run(_has_rule(store))


@in_loop
async def test_backup_of_moved_data_sources_contains_each_data_source_once(tmp_path: Path) -> None:
    databases = Databases()
    store = {"0-31": await databases.one(), "32-63": await databases.one()}
    settings = build(store=store, media=f"file://{tmp_path}/media", tags="memory://")
    place = repository(tmp_path / "backups")
    async with process(store) as graph:
        await populate(graph)
        async with mover(store) as moving:
            await moving.move(parse_shards("3-4,5:0-63"), store["32-63"])
        made = await backed_up(settings, place)
        assert made.stores.keys() == {"0-2,5:64-127,6-31", "3-4,5:0-63,32-63"}
        held = await everything_in(graph)
    target = f"sqlite:///{tmp_path}/new.db"
    await brought_back(place, build(store=target))
    async with opened(target) as graph:
        assert await everything_in(graph) == held


@in_loop
async def test_backup_of_store_without_snapshots_is_refused(tmp_path: Path) -> None:
    place = repository(tmp_path / "backups")
    for store, words in (
        ("dynamodb://table", "point-in-time recovery"),
        ("memory://", "an in-memory store cannot be backed up"),
    ):
        with pytest.raises(InvalidInput, match=words):
            await backed_up(build(store=store), place)
    assert await place.generations() == []


@in_loop
async def test_backup_and_media_in_s3_buckets_are_restored_and_pruned(tmp_path: Path, s3_url: str) -> None:
    bucket = s3_url.replace("/media?", "/{}?")
    store = f"sqlite:///{tmp_path}/shoal.db"
    place = BackupRepository.open(bucket.format("backups"), make=True)
    async with Shoal.open(store, media=bucket.format("live")) as shoal:
        (ann,) = await register(shoal, "ann")
        await ann.create("look", media=[await ann.upload(picture())])
        # Larger than the in-memory buffer.
        large = b"0123456789abcdef" * (5 << 16) + b"end"
        await MediaStore.open(bucket.format("live")).put("0/0/0/large/1-00000000.raw", large, RAW)
        await shoal.settle()
        first = await backed_up(shoal.network.settings, place)
        second = await backed_up(shoal.network.settings, place)
    assert (first.media.new_files, second.media.new_files) == (first.media.files + 1, 0)
    assert "secret" not in (await place.files.get(f"{first.generation}/manifest.json"))[0].decode()
    assert await place.generations() == [first.generation, second.generation]
    assert (await verify(place, "", FAST, nothing)).faults == 0
    new = build(store=f"sqlite:///{tmp_path}/new.db", media=bucket.format("restored"))
    done = await brought_back(place, new)
    assert (done.media_files, done.faults) == (second.media.files, [])
    async with open_network(new, background=False) as network:
        assert (await make_whole(network, nothing))["files"].found == 0
    pruned = await prune(place, Keeping(newest=1), nothing)
    # The large file is not attached to a post, so no generation references it.
    assert (pruned.generations, pruned.media_files) == ((first.generation,), 1)
    assert (await verify(place, "", FAST, nothing)).faults == 0
