"""A place with backups: whatever is killed there, earlier generations stay whole, and a generation is there whole or not at all."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Shoal
from shoal.core.errors import Conflict, InvalidInput, Unavailable
from shoal.graph.snapshots import SnapshotSource
from shoal.media.store import RAW
from shoal.ops.backups.backup import back_up
from shoal.ops.backups.manifest import FORMAT, Manifest, encode
from shoal.ops.backups.pruning import Keeping, kept, prune
from shoal.ops.backups.repository import MEDIA, BackupRepository
from shoal.ops.backups.throttle import Throttle
from shoal.ops.backups.verify import verify
from shoal.ops.checking.report import nothing
from shoal.settings import build
from shoal.wiring.backups import open_backed
from tests.backups.worlds import FAST, backed_up, repository
from tests.examples import examples
from tests.flows.media.test_media_posts import picture
from tests.flows.people import register
from tests.running import in_loop

KILLS = 8


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
def test_a_backup_that_is_killed_leaves_the_earlier_ones_whole_and_the_next_one_clears_it_away(
    phase: str, tmp_path: Path
) -> None:
    asyncio.run(_network(tmp_path))
    assert _begun(tmp_path).wait(60) == 0
    place = repository(tmp_path / "backups")
    (first,) = asyncio.run(place.generations())
    media = tmp_path / "backups" / MEDIA
    if phase == "media":
        # All of them are to be copied again.
        media.rename(tmp_path / "aside")
    chance = random.Random(4)
    for _ in range(KILLS):
        child = _begun(tmp_path, "--mb-per-second", "0.002" if phase == "media" else "0.001")
        _await_begun(tmp_path / "backups", child)
        time.sleep(chance.uniform(0.0, 0.6))
        child.send_signal(signal.SIGKILL)
        child.wait(10)
        assert asyncio.run(place.generations()) == [first]
        # Each run clears away what the one before had left.
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
    """Wait until it has begun, and has cleared away what the one before had left."""
    before = set(_folders(place))
    deadline = time.monotonic() + 60
    while len(now := set(_folders(place))) != 2 or now == before:
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)


@in_loop
async def test_a_backup_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
async def test_a_store_that_is_lost_while_it_is_read_leaves_no_generation(tmp_path: Path) -> None:
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
async def test_everything_is_for_its_owner_alone(tmp_path: Path) -> None:
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
async def test_one_backup_at_a_time_is_written_to_a_directory(tmp_path: Path) -> None:
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
async def test_in_a_bucket_one_that_gave_a_sign_is_waited_for_and_a_silent_one_is_cleared_away(s3_url: str) -> None:
    url = s3_url.replace("/media?", "/turns?")
    place, other = BackupRepository.open(url, make=True), BackupRepository.open(url, make=True, dead=0.0)
    async with place.writing() as name:
        with pytest.raises(Conflict, match=name):
            async with BackupRepository.open(url, make=True).writing():
                pass
        # Refused, it leaves nothing that others would wait for.
        assert [each async for page in place.files.files() for each in page if name not in each.key] == []
        await place.files.put(f"{name}/objects-00-00001.gz", b"half", RAW)
    async with other.writing() as later:
        left = [each.key async for page in place.files.files() for each in page]
        assert left == [f"{later}/begun"]
        await other.abandon(later)


@in_loop
async def test_what_is_no_backup_or_of_a_newer_shoal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no directory"):
        BackupRepository.open(f"file://{tmp_path}/nowhere", make=False)
    with pytest.raises(InvalidInput, match="directory, or at s3"):
        BackupRepository.open("ftp://host/place", make=False)
    place = repository(tmp_path / "backups")
    with pytest.raises(InvalidInput, match="no backup"):
        await place.manifest()
    with pytest.raises(InvalidInput, match="no generation"):
        await place.manifest("../../etc")
    with pytest.raises(InvalidInput, match="there is no generation"):
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
        # Nothing is deleted by what cannot be read.
        await place.files.put(f"{MEDIA}/0/0/0/ann/1-0.jpg", b"picture", RAW)
        with pytest.raises(InvalidInput):
            await prune(place, Keeping(newest=1), nothing)
        assert await place.files.size(f"{MEDIA}/0/0/0/ann/1-0.jpg")


def _manifest(at: datetime, number: int) -> Manifest:
    return Manifest(
        format=FORMAT,
        generation=f"{at:%Y%m%dT%H%M%S}000Z-{number:04x}",
        shoal="0",
        moment=round(at.timestamp() * 1_000),
        finished=0,
        held_ms=0.0,
        stores={},
        parts=(),
    )


@settings(max_examples=examples(150))
@given(
    st.lists(st.integers(0, 100 * 24), min_size=1, max_size=40, unique=True),
    st.builds(Keeping, st.integers(0, 5), st.integers(0, 9), st.integers(0, 6)),
)
def test_what_is_kept_is_the_newest_of_each_day_and_week(hours: list[int], keeping: Keeping) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    made = [_manifest(begin + timedelta(hours=hour), number) for number, hour in enumerate(hours)]
    stays = kept(made, keeping)
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


@in_loop
async def test_all_that_copy_share_one_throttle() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    throttle = Throttle(1e6)
    await asyncio.gather(*(throttle.spend(20_000) for _ in range(10)))
    assert 0.17 < loop.time() - began < 2
    await Throttle(None).spend(10**12)
