"""Backup repository: a killed backup keeps earlier generations intact, and a generation is atomic."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Shoal
from shoal.admin.backups.backup import back_up
from shoal.admin.backups.prune import Keeping, generations_to_keep, prune
from shoal.admin.backups.repository import FORMAT, MEDIA, BackupDamaged, BackupRepository, DumpPart, Manifest, encode
from shoal.admin.backups.verify import verify
from shoal.admin.report import nothing
from shoal.admin.throttling import Throttle
from shoal.app.backups import open_backed
from shoal.cli import main
from shoal.core.errors import Conflict, InvalidInput, Unavailable
from shoal.graph.bulk import SnapshotSource
from shoal.media.store import RAW, MediaStore
from shoal.settings import build
from tests.async_runner import TurnClock, in_loop, run
from tests.backups.backup_helpers import FAST, backed_up, repository
from tests.example_counts import DEEP, examples
from tests.flows.media.test_media_posts import picture
from tests.flows.members import register

KILLS = 8 if DEEP else 3


async def _network(folder: Path) -> None:
    async with Shoal.open(f"sqlite:///{folder}/shoal.db") as shoal:
        (ann,) = await register(shoal, "ann")
        for number in range(6):
            await ann.create(f"post {number}", media=[await ann.upload(picture((20 + number, 30)))])
        await shoal.settle()


def _begun(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    store = ["--store", f"sqlite:///{folder}/shoal.db"]
    return subprocess.Popen(
        [sys.executable, "-m", "shoal.cli", *store, "backup", "--to", str(folder / "backups"), *options],
        stdout=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("phase", ["media", "rows"])
def test_backup_killed_keeps_earlier_generations_and_is_cleaned_up_by_next_backup(phase: str, tmp_path: Path) -> None:
    asyncio.run(_network(tmp_path))
    assert _begun(tmp_path).wait(60) == 0
    place = repository(tmp_path / "backups")
    (first,) = asyncio.run(place.generations())
    media = tmp_path / "backups" / MEDIA
    if phase == "media":
        # Force all media to be copied again.
        media.rename(tmp_path / "aside")
    chance = random.Random(4)
    for _ in range(KILLS):
        # An uninterrupted backup would take a minute.
        child = _begun(tmp_path, "--mb-per-second", "0.0002" if phase == "media" else "0.0001")
        _await_begun(tmp_path / "backups", child)
        time.sleep(chance.uniform(0.0, 0.6))
        child.send_signal(signal.SIGKILL)
        child.wait(60)
        assert asyncio.run(place.generations()) == [first]
        # Each run removes the files of the previous run.
        assert len(_folders(tmp_path / "backups")) == 2
    assert _begun(tmp_path).wait(60) == 0
    generations = asyncio.run(place.generations())
    assert generations == sorted(_folders(tmp_path / "backups"))
    assert len(generations) == 2
    assert asyncio.run(verify(place, "", FAST, nothing)).faults == 0
    assert asyncio.run(verify(place, first, FAST, nothing)).faults == 0


def _folders(place: Path) -> list[str]:
    return [path.name for path in place.iterdir() if path.is_dir() and path.name != MEDIA]


def _await_begun(place: Path, child: subprocess.Popen[bytes]) -> None:
    """Wait until the backup has begun and removed the files of the previous run."""
    before = set(_folders(place))
    deadline = time.monotonic() + 60
    while len(now := set(_folders(place))) != 2 or now == before:
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)


@in_loop
async def test_backup_that_fails_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await _network(tmp_path)
    settings = build(store=f"sqlite:///{tmp_path}/shoal.db")
    place = repository(tmp_path / "backups")
    first = await backed_up(settings, place)

    class Full(Exception):
        pass

    async def finish(_: object, __: Manifest) -> None:
        raise Full

    monkeypatch.setattr(BackupRepository, "finish", finish)
    with pytest.raises(Full):
        await backed_up(settings, place)
    assert await asyncio.to_thread(_folders, tmp_path / "backups") == [first.generation]


@in_loop
async def test_backup_with_store_lost_during_read_leaves_no_generation(tmp_path: Path) -> None:
    store = {"0-31": f"sqlite:///{tmp_path}/one.db", "32-63": f"sqlite:///{tmp_path}/two.db"}
    async with Shoal.open(store) as shoal:
        await register(shoal, "ann")
    place = repository(tmp_path / "backups")
    settings = build(store=store)

    class Lost:
        def __init__(self, source: SnapshotSource) -> None:
            self._source = source

        def __getattr__(self, name: str) -> Any:
            return getattr(self._source, name)

        async def page(self, *_: object) -> None:
            raise Unavailable("the store was lost")

    async with open_backed(settings) as network:
        snapshots = [network.snapshots[0], cast("SnapshotSource", Lost(network.snapshots[1]))]
        with pytest.raises(Unavailable, match="was lost"):
            await back_up(replace(network, snapshots=snapshots), place, FAST, nothing)
    assert await place.generations() == []
    assert await asyncio.to_thread(_folders, tmp_path / "backups") == []
    await backed_up(settings, place)


@in_loop
async def test_backup_files_are_private_to_owner(tmp_path: Path) -> None:
    await _network(tmp_path)
    os.umask(before := os.umask(0))
    try:
        await backed_up(build(store=f"sqlite:///{tmp_path}/shoal.db"), repository(tmp_path / "backups"))
    finally:
        os.umask(before)
    modes = await asyncio.to_thread(_modes, tmp_path / "backups")
    assert modes == {(True, 0o700), (False, 0o600)}


def _modes(folder: Path) -> set[tuple[bool, int]]:
    return {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in (folder, *folder.rglob("*"))}


@in_loop
async def test_backup_to_directory_locked_by_other_backup_is_refused(tmp_path: Path) -> None:
    await _network(tmp_path)
    place = repository(tmp_path / "backups")
    async with place.writing() as name:
        with pytest.raises(Conflict, match="another backup"):
            await backed_up(build(store=f"sqlite:///{tmp_path}/shoal.db"), repository(tmp_path / "backups"))
        with pytest.raises(Conflict, match="another backup"):
            async with repository(tmp_path / "backups").writing():
                pass
        await place.abandon(name)
    await backed_up(build(store=f"sqlite:///{tmp_path}/shoal.db"), place)


@in_loop
async def test_backup_to_bucket_with_live_lease_is_refused_and_expired_lease_is_removed(s3_url: str) -> None:
    url = s3_url.replace("/media?", "/turns?")
    place, other = BackupRepository.open(url, make=True), BackupRepository.open(url, make=True, dead=0.0)
    async with place.writing() as name:
        with pytest.raises(Conflict, match=name):
            async with BackupRepository.open(url, make=True).writing():
                pass
        # The refused backup leaves no lease.
        assert [each async for page in place.files.files() for each in page if name not in each.key] == []
        await place.files.put(f"{name}/objects-00-00001.gz", b"half", RAW)
    async with other.writing() as later:
        left = [each.key async for page in place.files.files() for each in page]
        assert left == [f"{later}/begun"]
        await other.abandon(later)


@in_loop
async def test_backup_manifest_missing_damaged_or_of_newer_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no directory"):
        BackupRepository.open(f"file://{tmp_path}/nowhere", make=False)
    with pytest.raises(InvalidInput, match="directory or at s3"):
        BackupRepository.open("ftp://host/place", make=False)
    place = repository(tmp_path / "backups")
    with pytest.raises(InvalidInput, match="no backup"):
        await place.manifest()
    with pytest.raises(InvalidInput, match=r"no generation|not a generation"):
        await place.manifest("../../etc")
    with pytest.raises(InvalidInput, match=r"no generation|not a generation"):
        await place.manifest("20260101T000000000Z-0000")
    manifest = _manifest(datetime(2026, 1, 1, tzinfo=UTC), 0)
    await place.finish(manifest)
    assert await place.manifest() == manifest
    path = tmp_path / "backups" / manifest.generation / "manifest.json"
    for data, words in (
        (encode(manifest).replace(b'"format": 1', b'"format": %d' % (FORMAT + 1)), "newer Shoal"),
        (encode(manifest)[:-20], "damaged"),
        (encode(manifest).replace(b"T000000", b"T000001"), "another generation"),
    ):
        path.write_bytes(data)
        with pytest.raises(InvalidInput, match=words):
            await place.manifest()
        # Pruning with an unreadable manifest deletes no files.
        await place.files.put(f"{MEDIA}/0/0/0/ann/1-0.jpg", b"picture", RAW)
        with pytest.raises(InvalidInput):
            await prune(place, Keeping(newest=1), nothing)
        assert await place.files.size(f"{MEDIA}/0/0/0/ann/1-0.jpg")


def _manifest(at: datetime, number: int, *parts: DumpPart, generation: str = "") -> Manifest:
    return Manifest(
        format=FORMAT,
        generation=generation or f"{at:%Y%m%dT%H%M%S}000Z-{number:04x}",
        shoal="0",
        moment=round(at.timestamp() * 1_000),
        finished=0,
        held_ms=0.0,
        stores={},
        parts=parts,
    )


class FaultyStore:
    """A media store that fails one request, before or after it takes effect.

    Args:
        fails: the method and a part of the key: `delete begun`.
        late: whether the request takes effect before it fails.
    """

    def __init__(self, files: MediaStore, fails: str, *, late: bool = False) -> None:
        self._files = files
        self._fails = fails
        self._late = late

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    async def put(self, key: str, data: bytes, content_type: str) -> None:
        """Store a file."""
        if self._late or not self._hit("put", key):
            await self._files.put(key, data, content_type)
        if self._hit("put", key):
            raise Unavailable("503 SlowDown")

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete files one after the other."""
        for key in keys:
            if self._hit("delete", key):
                raise Unavailable("503 SlowDown")
            await self._files.delete([key])

    def _hit(self, method: str, key: str) -> bool:
        name, _, part = self._fails.partition(" ")
        return method == name and part in key


def _bucket(folder: Path, fails: str = "none", *, late: bool = False, dead: float = 600.0) -> BackupRepository:
    """Open a repository that uses leases instead of a lock, like a bucket."""
    files = FaultyStore(MediaStore.open(folder.as_uri()), fails, late=late)
    return BackupRepository(cast("MediaStore", files), None, dead=dead)


_PART = ("objects-00-00001.gz", "objects", b"rows", 1)
_LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@in_loop
async def test_backup_to_bucket_finishing_after_lease_expiry_is_refused(tmp_path: Path) -> None:
    stalled, other = _bucket(tmp_path), _bucket(tmp_path, dead=0.0)
    async with stalled.writing() as name:
        part = await stalled.put_part(name, *_PART)
        async with other.writing():
            # The other backup treats the stalled one as dead and deletes its files.
            assert await stalled.files.size(f"{name}/{part.key}") is None
            stalled._dead = 0.0
            with pytest.raises(Conflict, match="the lease of this backup expired"):
                await stalled.finish(_manifest(_LONG_AGO, 0, part, generation=name))
            assert await stalled.generations() == []


@in_loop
async def test_backup_to_bucket_with_lease_expiring_during_manifest_write_is_withdrawn(tmp_path: Path) -> None:
    place = _bucket(tmp_path)

    async def put(key: str, data: bytes, content_type: str) -> None:
        await MediaStore.open(tmp_path.as_uri()).put(key, data, content_type)
        if key.endswith("manifest.json"):
            place._dead = 0.0

    place.files.put = put  # type: ignore[method-assign,assignment]
    async with place.writing() as name:
        part = await place.put_part(name, *_PART)
        with pytest.raises(Conflict, match="the lease of this backup expired"):
            await place.finish(_manifest(_LONG_AGO, 0, part, generation=name))
        assert await place.generations() == []


@in_loop
async def test_backup_to_bucket_with_expired_lease_stops_writing_and_pruning(tmp_path: Path) -> None:
    place = _bucket(tmp_path)
    old, new = _manifest(_LONG_AGO, 0), _manifest(_LONG_AGO + timedelta(days=1), 1)
    for manifest in (old, new):
        await place.finish(manifest)
    await place.files.put(f"{MEDIA}/0/0/0/ann/1-0.jpg", b"picture", RAW)
    async with place.writing() as name:
        place._dead = 0.0
        with pytest.raises(Conflict, match="the lease of this backup expired"):
            await place.put_part(name, *_PART)
        with pytest.raises(Conflict, match="the lease of this backup expired"):
            await prune(place, Keeping(newest=1), nothing)
        with pytest.raises(Conflict, match="the lease of this backup expired"):
            await prune(place, Keeping(newest=2), nothing)
        assert await place.generations() == [old.generation, new.generation]
        assert await place.files.size(f"{MEDIA}/0/0/0/ann/1-0.jpg")


@pytest.mark.parametrize("bucket", [False, True])
@in_loop
async def test_backup_with_deleted_files_is_not_committed(bucket: bool, tmp_path: Path) -> None:
    place = _bucket(tmp_path) if bucket else repository(tmp_path)
    async with place.writing() as name:
        part = await place.put_part(name, *_PART)
        await place.files.delete([f"{name}/{part.key}"])
        with pytest.raises(BackupDamaged, match=r"objects-00-00001\.gz was deleted"):
            await place.finish(_manifest(_LONG_AGO, 0, part, generation=name))
        assert await place.generations() == []


@in_loop
async def test_backup_that_is_complete_is_kept_when_lease_removal_fails(tmp_path: Path) -> None:
    await _network(tmp_path)
    store = build(store=f"sqlite:///{tmp_path}/shoal.db")
    made = await backed_up(store, _bucket(tmp_path / "backups", "delete begun"))
    place = _bucket(tmp_path / "backups")
    assert await place.generations() == [made.generation]
    assert (await verify(place, "", FAST, nothing)).faults == 0
    # The remaining lease does not block later backups.
    later = await backed_up(store, place)
    assert await place.generations() == [made.generation, later.generation]


@in_loop
async def test_backup_with_unacknowledged_manifest_write_leaves_no_files(tmp_path: Path) -> None:
    await _network(tmp_path)
    with pytest.raises(Unavailable, match="SlowDown"):
        await backed_up(
            build(store=f"sqlite:///{tmp_path}/shoal.db"), _bucket(tmp_path / "backups", "put manifest", late=True)
        )
    assert await _bucket(tmp_path / "backups").generations() == []
    assert await asyncio.to_thread(_folders, tmp_path / "backups") == []


@pytest.mark.parametrize("fails", ["delete objects", "delete manifest"])
@in_loop
async def test_backup_deletion_that_fails_leaves_generation_complete_or_unlisted(fails: str, tmp_path: Path) -> None:
    await _network(tmp_path)
    made = await backed_up(build(store=f"sqlite:///{tmp_path}/shoal.db"), _bucket(tmp_path / "backups"))
    with pytest.raises(Unavailable, match="SlowDown"):
        await _bucket(tmp_path / "backups", fails).abandon(made.generation)
    place = _bucket(tmp_path / "backups")
    if fails == "delete objects":
        assert await place.generations() == []
    else:
        assert await place.generations() == [made.generation]
        assert (await verify(place, "", FAST, nothing)).faults == 0


@settings(max_examples=examples(75, full=150))
@given(
    st.lists(st.integers(0, 100 * 24), min_size=1, max_size=40, unique=True),
    st.builds(Keeping, st.integers(0, 5), st.integers(0, 9), st.integers(0, 6)),
)
def test_backup_retention_keeps_newest_of_each_day_and_week(hours: list[int], keeping: Keeping) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    made = [_manifest(begin + timedelta(hours=hour), number) for number, hour in enumerate(hours)]
    stays = generations_to_keep(made, keeping)
    assert len(stays) <= max(1, keeping.newest) + keeping.daily + keeping.weekly
    newest_first = sorted(made, key=lambda each: -each.moment)
    assert stays >= {each.generation for each in newest_first[: max(1, keeping.newest)]}
    for period, amount in ((_day, keeping.daily), (_week, keeping.weekly)):
        for wanted in list(dict.fromkeys(map(period, newest_first)))[:amount]:
            assert next(each for each in newest_first if period(each) == wanted).generation in stays
    for each in newest_first[max(1, keeping.newest) :]:
        if each.generation in stays:
            assert not [one for one in made if _day(one) == _day(each) and one.moment > each.moment]


def _day(manifest: Manifest) -> object:
    return manifest.at.date()


def _week(manifest: Manifest) -> object:
    return manifest.at.isocalendar()[:2]


def test_backup_throttle_is_shared_by_concurrent_copies() -> None:
    async def copied() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        throttle = Throttle(1e6)
        await asyncio.gather(*(throttle.spend(20_000) for _ in range(10)))
        spent = loop.time() - began
        await Throttle(None).spend(10**12)
        return spent

    assert 0.17 < run(copied(), TurnClock) < 0.2


def test_shoal_backup_command_with_failed_pruning_reports_that_new_backup_is_complete(tmp_path: Path) -> None:
    asyncio.run(_network(tmp_path))
    place = repository(tmp_path / "backups")
    old = _manifest(_LONG_AGO, 0)
    asyncio.run(place.finish(old))
    (tmp_path / "backups" / old.generation / "manifest.json").write_text("{")
    command = ["--store", f"sqlite:///{tmp_path}/shoal.db", "backup", "--to", str(tmp_path / "backups"), "--keep", "1"]
    done = CliRunner().invoke(main, command)
    new = asyncio.run(place.generations())[-1]
    assert (done.exit_code, done.output) == (
        1,
        f"shoal: {new} is complete, but pruning older generations failed: "
        f"the manifest of {old.generation} is damaged: use another generation\n",
    )
