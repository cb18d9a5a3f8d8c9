"""The import page in the settings: upload, preview, import in the background, and discard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from shoal.admin.archives.storage import MOST, RETENTION_MS, ArchiveStorage
from shoal.admin.archives.worker import ArchiveWorker
from shoal.commands import members
from shoal.core.audit import AuditVerb
from shoal.core.ids import now_ms
from shoal.graph.schema import POSTED
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.archives import factories
from tests.archives.test_import import of_mastodon
from tests.audit.log_reader import entries
from tests.web.browser import Page, Visitor, member, visitor

PATH = "/settings/import"


@pytest.fixture
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made_world:
        for name in ("ann", "ben"):
            member(made_world, name)
        yield made_world


@pytest.fixture
def ann(here: NetworkFixture) -> Visitor:
    return visitor(here, "ann")


def shelf_of(here: NetworkFixture) -> ArchiveStorage:
    assert here.app_parts.archives is not None
    return here.app_parts.archives


def folder_of(here: NetworkFixture) -> Path:
    """Return the folder of the only archive."""
    archive_storage = shelf_of(here)
    (owner,) = archive_storage.members()
    return archive_storage.archive(owner, "").parent


def work(here: NetworkFixture) -> None:
    """Run the archive worker once."""
    here.run(ArchiveWorker(here.network, shelf_of(here)).once())
    here.settle()


def sent(ann: Visitor, data: bytes, name: str = "archive.zip") -> Page:
    return ann.open(PATH).press("Upload", files={"file": (name, data)})


def test_import_page_previews_archive_and_imports_after_confirmation(
    here: NetworkFixture, ann: Visitor, tmp_path: Path
) -> None:
    page = sent(ann, of_mastodon(tmp_path).read_bytes(), "C:\\Downloads\\archive-2022.zip")
    assert (page.path, "archive-2022.zip" in page.text, "The import will start soon." in page.text) == (
        PATH,
        True,
        True,
    )
    assert page.one("progress").get("value") is None
    work(here)
    page = ann.open(PATH)
    assert "Archive of the account https://mastodon.example/users/ann on Mastodon (archive-2022.zip)" in page.text
    assert "3 posts 1 reply you wrote to your own posts 1 photo" in page.text
    assert "1 post: replies to other people" in page.text
    assert "1 post: direct messages" in page.text
    assert "Quiet, @ben" in page.text
    assert "Low tide" not in ann.open("/@ann?show=posts").text
    assert here.run(entries(here.network.store, AuditVerb.ARCHIVE_IMPORTED)) == []
    page = page.press("Import", widest="unlisted")
    (noted,) = here.run(entries(here.network.store, AuditVerb.ARCHIVE_IMPORTED))
    assert (noted.entry.actor_name, noted.entry.target_name) == ("ann", "ann")
    assert "The import will start soon." in page.text
    work(here)
    page = ann.open(PATH)
    assert "Imported" in page.text
    assert [file.name for file in folder_of(here).glob("archive.*")] == []
    profile = page.follow("View your profile")
    assert profile.path == "/@ann"
    assert "Low tide" in ann.open("/@ann?show=posts").text
    assert "Low tide" not in visitor(here, "ben").open("/explore").text
    assert "Upload" in ann.open(PATH).press("Import another archive").text
    assert shelf_of(here).members() == []


def test_import_page_htmx_poll_returns_progress_then_redirect(
    here: NetworkFixture, ann: Visitor, tmp_path: Path
) -> None:
    sent(ann, of_mastodon(tmp_path).read_bytes())
    part = ann.open(f"{PATH}?only=state", **{"HX-Request": "true"})
    assert "<html" not in part.answer.text
    assert part.one("#importing")["hx-get"] == f"{PATH}?only=state"
    work(here)
    gone = ann.open(f"{PATH}?only=state", **{"HX-Request": "true"})
    assert (gone.status, gone.answer.headers["HX-Redirect"]) == (204, PATH)


def test_import_page_unknown_format_shows_error_and_allows_new_upload(here: NetworkFixture, ann: Visitor) -> None:
    sent(ann, b"a holiday")
    work(here)
    page = ann.open(PATH)
    assert "Unknown archive format; upload the ZIP of Mastodon" in page.text
    page = page.press("Choose another file")
    assert "Upload" in page.text
    assert "Choose a file." in page.press("Upload").text


def test_import_page_allows_one_archive_per_member_and_hides_archives_of_other_members(
    here: NetworkFixture, ann: Visitor, tmp_path: Path
) -> None:
    data = of_mastodon(tmp_path).read_bytes()
    form = ann.open(PATH)
    sent(ann, data)
    again = form.press("Upload", files={"file": ("again.zip", data)})
    assert (again.status, "You have already uploaded an archive: discard it first." in again.text) == (422, True)
    ben = visitor(here, "ben")
    assert "Upload" in ben.open(PATH).text
    ben.post(f"{PATH}/discard", [("form_token", ben.open(PATH).form_token)])
    assert shelf_of(here).state(shelf_of(here).members()[0]) is not None
    assert "Upload" in ann.open(PATH).press("Stop import").text


def test_import_page_archive_discarded_during_import_stops_import(
    here: NetworkFixture, ann: Visitor, tmp_path: Path
) -> None:
    notes = [factories.note(n, f"<p>Number {n}</p>") for n in range(3_000)]
    sent(ann, factories.zipped(tmp_path / "a.zip", factories.mastodon_files(notes)).read_bytes())
    work(here)
    ann.open(PATH).press("Import")
    archive_worker = ArchiveWorker(here.network, shelf_of(here))

    async def stopped() -> None:
        working = asyncio.ensure_future(archive_worker.once())
        archive_storage = shelf_of(here)
        owner = archive_storage.members()[0]
        while (state := archive_storage.state(owner)) is not None and not (state.step == "posts" and state.done):  # noqa: ASYNC110  # a file says so
            await asyncio.sleep(0.01)
        archive_storage.discard(owner)
        await working

    here.run(stopped())
    here.settle()
    assert shelf_of(here).members() == []
    found = here.run(members.find(here.writes, "ann"))
    assert found is not None
    assert 0 < here.run(here.network.store.assoc_count((found.id,), (POSTED,)))[POSTED][found.id] < 3_000


def test_import_page_stale_form_does_not_import_newer_archive(
    here: NetworkFixture, ann: Visitor, tmp_path: Path
) -> None:
    data = of_mastodon(tmp_path).read_bytes()
    sent(ann, data)
    work(here)
    old = ann.open(PATH)
    assert "Upload" in ann.open(PATH).press("Discard archive").text
    sent(ann, data)
    work(here)
    assert "Will be imported" in old.press("Import", widest="public").text
    assert here.run(entries(here.network.store, AuditVerb.ARCHIVE_IMPORTED)) == []
    assert "The import will start soon." in ann.open(PATH).press("Import").text


def test_import_page_without_login_or_form_token_is_refused(here: NetworkFixture, ann: Visitor) -> None:
    assert visitor(here).open(PATH).path.startswith("/login")
    for action in ("", "/take", "/discard"):
        assert ann.post(f"{PATH}{action}", [("x", "y")]).status == 403


def test_import_page_upload_above_size_limit_returns_413(tmp_path: Path) -> None:
    with network_fixture(max_archive_bytes=100_000) as small:
        member(small, "ann")
        page = sent(visitor(small, "ann"), b"a" * 300_000)
        assert page.status == 413
        assert shelf_of(small).members() == []
    with network_fixture(max_archive_bytes=0) as closed:
        member(closed, "ann")
        assert visitor(closed, "ann").open(PATH).status == 404
        assert "Import" not in visitor(closed, "ann").open("/settings").text


def test_archive_storage_at_limit_refuses_uploads_until_abandoned_archives_are_swept(
    here: NetworkFixture, tmp_path: Path
) -> None:
    archive_storage = shelf_of(here)
    for owner in range(1, MOST + 1):
        archive_storage.put(owner, "a.zip", 1, lambda target: None)
    page = sent(visitor(here, "ann"), b"one more")
    assert (page.status, "Many archives are being imported" in page.text) == (503, True)
    archive_storage.sweep(now_ms() + 2 * RETENTION_MS)
    assert len(archive_storage.members()) == MOST
    # Their owners do not exist.
    here.run(ArchiveWorker(here.network, archive_storage).sweep())
    assert archive_storage.members() == []
    ann = visitor(here, "ann")
    sent(ann, b"unknown archive")
    work(here)
    archive_storage.sweep(now_ms() + RETENTION_MS - 60_000)
    assert len(archive_storage.members()) == 1
    archive_storage.sweep(now_ms() + RETENTION_MS + 60_000)
    assert archive_storage.members() == []


def test_import_page_shows_failure_after_repeated_worker_crashes(
    here: NetworkFixture, ann: Visitor, tmp_path: Path
) -> None:
    sent(ann, of_mastodon(tmp_path).read_bytes())
    archive_storage = shelf_of(here)
    (owner,) = archive_storage.members()
    for _ in range(5):
        state = archive_storage.state(owner)
        assert state is not None
        archive_storage.note(owner, replace(state, attempts=state.attempts + 1))
    work(here)
    assert "The server stopped several times while it imported this archive." in ann.open(PATH).text


def test_archive_worker_skips_archive_claimed_by_other_process(
    here: NetworkFixture, ann: Visitor, tmp_path: Path
) -> None:
    sent(ann, of_mastodon(tmp_path).read_bytes())
    archive_storage = shelf_of(here)
    (owner,) = archive_storage.members()
    lock = archive_storage.claim(owner)
    assert lock is not None
    work(here)
    assert "The import will start soon." in ann.open(PATH).text
    lock.close()
    work(here)
    assert "Will be imported" in ann.open(PATH).text


def test_archive_storage_files_are_private_to_owner(here: NetworkFixture, ann: Visitor, tmp_path: Path) -> None:
    sent(ann, of_mastodon(tmp_path).read_bytes())
    (folder,) = folder_of(here).glob("archive.*")
    assert [path.stat().st_mode & 0o077 for path in (folder, folder.parent)] == [0, 0]
    assert json.loads((folder.parent / "state.json").read_bytes())["phase"] == "looking"
