"""Right-to-left text: the position of names, and the direction of mentions and tags."""

from __future__ import annotations

from playwright.sync_api import Browser

from shoal.commands import members, posts
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from tests.web.chromium.browser_sessions import LiveServer, screen

_FIRST_CHARACTER = """(link) => {
  const range = document.createRange(), text = document.createTreeWalker(link, NodeFilter.SHOW_TEXT).nextNode();
  range.setStart(text, 0);
  range.setEnd(text, 1);
  return range.getBoundingClientRect().left - link.getBoundingClientRect().left;
}"""


def test_profile_heading_with_right_to_left_name_starts_at_page_start(at: LiveServer, chromium: Browser) -> None:
    lea = at.join("lea")
    starts = []
    with screen(at, chromium) as ours:
        for name in ("Lea", "לאה"):
            at.run(members.update_profile(at.network.writes, lea.id, ProfileChange(display_name=name)))
            at.settle()
            heading = ours.open("/@lea").locator("main h1").first
            starts.append(
                heading.evaluate(
                    "(h) => { const r = document.createRange(); r.selectNodeContents(h); return r.getBoundingClientRect().left; }"
                )
            )
    assert starts[0] == starts[1]


def test_post_text_right_to_left_renders_mentions_and_tags_left_to_right(at: LiveServer, chromium: Browser) -> None:
    mia = at.join("mia")
    at.join("noa")
    for text in ("שלום @noa ו #sea", "\u202eTo @noa at #sea"):
        post = at.run(posts.create(at.network.writes, mia.id, Draft(text=text)))
        with screen(at, chromium) as ours:
            page = ours.open(f"/@mia/{post.id}")
            for link in ("@noa", "#sea"):
                offset = page.locator(f".prose a:has-text('{link}')").evaluate(_FIRST_CHARACTER)
                assert offset < 1, (text, link)
