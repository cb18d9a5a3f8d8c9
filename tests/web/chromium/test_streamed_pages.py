"""Pages loaded in pieces: visible content does not move when the next piece arrives."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from shoal.commands import reactions
from tests.web.chromium.browser_sessions import LiveServer, screen
from tests.web.pictures import posted

_BY_PIECES = r"""async (path) => {
  const text = await (await fetch(path)).text();
  const ends = [...text.matchAll(/<a id="p\d+" class="photo/g)].map((one) => one.index), found = [];
  const at = ends[ends.length - 1];
  document.open();
  for (const piece of [text.slice(0, at), text.slice(at)]) {
    document.write(piece);
    while (!document.querySelector('link[rel="stylesheet"]')?.sheet) await new Promise((done) => setTimeout(done, 20));
    const grids = [...document.querySelectorAll(".photo-rows")].map((grid) => [...grid.querySelectorAll(".photo")]);
    found.push(grids.map((photos) => photos.filter((one) => one.getClientRects().length).length));
  }
  document.close();
  return found;
}"""


@pytest.mark.parametrize("width", [390, 1_280])
def test_streamed_page_hides_photo_grid_until_it_is_complete(at: LiveServer, chromium: Browser, width: int) -> None:
    ann = at.join(f"ann{width}")
    for number in range(5):
        sea = posted(at, ann, f"Tide {number}", 1)
        at.run(reactions.like(at.network.writes, ann.id, sea.id))
    at.settle()
    with screen(at, chromium, width) as ours:
        page = ours.open("/explore")
        expect(page.locator(".photo-rows .photo").first).to_be_visible()
        before, after = page.evaluate(_BY_PIECES, "/explore")
        assert sum(after) == page.locator(".photo-rows .photo").count() >= 5
        assert before == [*after[:-1], 0], "photos of an incomplete grid are visible and will move"
