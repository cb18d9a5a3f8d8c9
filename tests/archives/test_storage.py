"""Archive storage: discarded archives stay discarded, one archive per member, and a limit on pending archives."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import IO

import pytest
from msgspec.structs import replace

from shoal.admin.archives.storage import LOOKED_MS, MOST, RETENTION_MS, ArchiveState, ArchiveStorage, Discarded, Phase
from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.ids import now_ms
from shoal.core.model import Visibility

ANN = 7


@pytest.fixture
def archive_storage(tmp_path: Path) -> ArchiveStorage:
    return ArchiveStorage(tmp_path / "shelf", 1 << 20)


def put(archive_storage: ArchiveStorage, member_id: int = ANN, data: bytes = b"an archive") -> ArchiveState:
    archive_storage.put(member_id, "a.zip", len(data), lambda target: _written(target, data))
    return state_of(archive_storage, member_id)


def state_of(archive_storage: ArchiveStorage, member_id: int = ANN) -> ArchiveState:
    state = archive_storage.state(member_id)
    assert state is not None
    return state


def _written(target: IO[bytes], data: bytes) -> None:
    target.write(data)


def fill(archive_storage: ArchiveStorage, phase: Phase, changed: int) -> None:
    for owner in range(100, 100 + MOST):
        archive_storage.note(owner, replace(put(archive_storage, owner), phase=phase, changed=changed + owner))


def test_archive_storage_change_with_token_of_replaced_archive_does_not_affect_new_archive(
    archive_storage: ArchiveStorage,
) -> None:
    first = put(archive_storage)
    archive_storage.discard(ANN)
    with pytest.raises(Discarded):
        archive_storage.note(ANN, first)
    second = put(archive_storage, data=b"another archive")
    with pytest.raises(Discarded):
        archive_storage.note(ANN, replace(first, phase="taking"))
    archive_storage.empty(ANN, first.token)
    archive_storage.discard(ANN, first.token)
    assert not archive_storage.archive(ANN, first.token).exists()
    archive_storage.note(ANN, looked := replace(second, phase="looked"))
    archive_storage.begin(ANN, first.token, Visibility.PUBLIC)
    assert state_of(archive_storage) == looked
    assert archive_storage.archive(ANN, second.token).read_bytes() == b"another archive"
    archive_storage.begin(ANN, second.token, Visibility.PUBLIC)
    assert state_of(archive_storage).phase == "taking"


def test_archive_storage_concurrent_uploads_keep_one_complete_archive(archive_storage: ArchiveStorage) -> None:
    both = Barrier(2)

    def arriving(size: int) -> bool:
        def copied(target: IO[bytes]) -> None:
            target.write(b"a" * size)
            both.wait(60)

        try:
            archive_storage.put(ANN, f"{size}.zip", size, copied)
        except InvalidInput as error:
            assert "already uploaded an archive" in str(error)  # noqa: PT017  # one of two
            return False
        return True

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(arriving, (10, 20))) == [False, True]
    state = state_of(archive_storage)
    assert archive_storage.archive(ANN, state.token).stat().st_size == state.size
    assert [place.name for place in archive_storage.archive(ANN, "").parents[1].iterdir() if place.is_dir()] == [
        str(ANN)
    ]


def test_archive_storage_limit_does_not_count_reports_of_finished_imports(archive_storage: ArchiveStorage) -> None:
    fill(archive_storage, "done", now_ms())
    assert put(archive_storage).phase == "looking"
    assert len(archive_storage.members()) == MOST + 1


def test_archive_storage_full_evicts_oldest_unconfirmed_archive(archive_storage: ArchiveStorage) -> None:
    fill(archive_storage, "looked", now_ms() - LOOKED_MS + 60_000)
    with pytest.raises(Unavailable, match="Many archives"):
        put(archive_storage)
    for owner in archive_storage.members():
        archive_storage.note(
            owner, replace(state_of(archive_storage, owner), changed=now_ms() - LOOKED_MS - 60_000 + owner)
        )
    put(archive_storage)
    assert archive_storage.members() == [ANN, *range(101, 100 + MOST)]


def test_archive_storage_sweep_removes_files_of_killed_process(archive_storage: ArchiveStorage) -> None:
    state = put(archive_storage)
    archive_storage.note(ANN, replace(state, phase="done"))
    folder = archive_storage.archive(ANN, "").parents[1]
    for name in ("8.aa", "9.bb"):
        (folder / name).mkdir()
        (folder / name / "archive.aa").touch()
    os.utime(folder / "8.aa", (1, 1))
    archive_storage.sweep(now_ms())
    assert not archive_storage.archive(ANN, state.token).exists()
    assert {place.name for place in folder.iterdir() if place.is_dir()} == {str(ANN), "9.bb"}
    (left := folder / str(ANN) / "work-aa").mkdir()
    archive_storage.workplace(ANN)
    assert not left.exists()
    (folder / str(ANN) / "state.json").write_text('{"phase": "of another version"}')
    assert archive_storage.state(ANN) is None
    archive_storage.sweep(now_ms() + RETENTION_MS + 60_000)
    assert archive_storage.members() == []


def test_archive_storage_upload_replaces_archive_whose_state_file_is_unreadable(
    archive_storage: ArchiveStorage,
) -> None:
    put(archive_storage)
    (archive_storage.archive(ANN, "").parent / "state.json").write_text('{"phase": "of another version"}')
    assert put(archive_storage, data=b"another archive").size == 15


def test_archives_folder_of_memory_store_is_deleted_at_process_exit() -> None:
    # The folder name once contained the process id, so a later process with that id reused its archives.
    code = (
        "from shoal.settings import Settings; from shoal.app.paths import archives_folder as folder;"
        "memory = Settings(store='memory://'); print(folder(memory), folder(memory).is_dir(), folder(memory) == folder(memory))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    assert shown[1:] == ["True", "True"]
    assert not Path(shown[0]).exists()
