"""Import of an archive in a real browser: the page updates itself, and is accessible in each state."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from shoal.admin.archives.importer import ArchiveImport
from tests.archives import factories
from tests.archives.test_import import of_mastodon
from tests.web.chromium.accessibility import hindrances, pale
from tests.web.chromium.browser_sessions import LiveServer, live_server, screen


@pytest.fixture(scope="module")
def here() -> Iterator[LiveServer]:
    with live_server() as at:
        at.join("ann")
        at.join("ben")
        yield at


def clean(page: Page) -> None:
    """Check accessibility, contrast and width in light and dark mode, wide and narrow."""
    assert hindrances(page) == []
    for width, dark in ((1280, True), (390, False)):
        page.set_viewport_size({"width": width, "height": 844})
        assert pale(page, dark=dark) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_archive_import_page_updates_until_import_completes(
    here: LiveServer, chromium: Browser, tmp_path: Path
) -> None:
    with screen(here, chromium) as ann:
        ann.log_in("ann")
        page = ann.open("/settings/import")
        page.get_by_label("Your archive").set_input_files(of_mastodon(tmp_path))
        page.get_by_role("button", name="Upload").click()
        expect(page.get_by_role("heading", name="Will be imported")).to_be_visible(timeout=60_000)
        clean(page)
        page.locator("summary", has_text="shares of other people's posts").click()
        expect(page.get_by_text("https://other.example/users/bob/statuses/2")).to_be_visible()
        page.get_by_label("Followers only").check()
        page.get_by_role("button", name="Import", exact=True).click()
        expect(page.get_by_role("heading", name="Imported", exact=True)).to_be_visible(timeout=60_000)
        clean(page)
        page.get_by_role("button", name="Import another archive").click()
        page.get_by_label("Your archive").set_input_files(
            factories.zipped(tmp_path / "other.zip", {"a.txt": "nothing"})
        )
        page.get_by_role("button", name="Upload").click()
        expect(page.get_by_role("alert")).to_contain_text("Unknown archive format", timeout=60_000)
        clean(page)


def test_archive_import_page_shows_progress_of_large_archive(
    here: LiveServer, chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait(_import: ArchiveImport) -> None:
        await asyncio.Event().wait()

    # The import waits after its first posts, so that it runs until the test stops it.
    monkeypatch.setattr(ArchiveImport, "_wait_for_events", wait)
    notes = [factories.note(n, f"<p>Number {n}</p>") for n in range(10_000)]
    path = factories.zipped(tmp_path / "large.zip", factories.mastodon_files(notes))
    with screen(here, chromium) as ben:
        ben.log_in("ben")
        page = ben.open("/settings/import")
        page.get_by_label("Your archive").set_input_files(path)
        page.get_by_role("button", name="Upload").click()
        expect(page.get_by_role("button", name="Import", exact=True)).to_be_visible(timeout=60_000)
        page.get_by_role("button", name="Import", exact=True).click()
        expect(page.get_by_role("status").filter(has_text="of 10,000 posts")).to_be_visible(timeout=60_000)
        expect(page.get_by_role("progressbar")).to_have_attribute("value", re.compile(r"\d"), timeout=60_000)
        clean(page)
        page.get_by_role("button", name="Stop import").click()
        expect(page.get_by_role("button", name="Upload")).to_be_visible()
