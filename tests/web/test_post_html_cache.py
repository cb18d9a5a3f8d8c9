"""The cache of rendered posts, shared by viewers with equal views: cached HTML equals freshly rendered HTML."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from msgspec.structs import replace

from shoal.web.components import samples
from shoal.web.ranking import WhyView
from shoal.web.rendering import PostHtmlCache, templates
from shoal.web.view_models import AnsweredPost, Button, PostView, post_of
from tests.api.in_memory_network import network_fixture
from tests.web.browser import plain_ctx

TOKEN = "of-this-page"
PATH = '/tags/tide?show=<all>&q="it\'s"'
ESCAPED = "/tags/tide?show=&lt;all&gt;&amp;q=&#34;it&#39;s&#34;"
QUOTED = "%2Ftags%2Ftide%3Fshow%3D%3Call%3E%26q%3D%22it%27s%22"


@pytest.fixture(scope="module")
def views() -> list[PostView]:
    """A post in each state that pages can show."""
    with network_fixture() as made:
        ctx = plain_ctx(made)
        return [post_of(ctx, entry) for _, entry in samples(ctx.now_ms)]


def draw(
    drawn: PostHtmlCache, post: PostView, path: str = PATH, token: str | None = TOKEN, language: str = "en"
) -> str:
    return str(drawn.draw(templates(language, ""), language, post, path, token))


def test_post_html_cache_equals_fresh_rendering(views: list[PostView]) -> None:
    kept = PostHtmlCache()
    for path, token, language in (
        (PATH, TOKEN, "en"),
        ("/", "another", "en"),
        ("/", None, "en"),
        ("/explore", None, "de"),
        (PATH, TOKEN, "de"),
    ):
        for post in views:
            assert draw(kept, post, path, token, language) == draw(PostHtmlCache(), post, path, token, language)


def test_post_html_cache_inserts_form_token_and_return_path_of_page(views: list[PostView]) -> None:
    kept = PostHtmlCache()
    for post in views:
        draw(kept, post, "/another/page", "token-of-another")
        html = draw(kept, post)
        assert f'name="to" value="{ESCAPED}#p{post.entry_id}"' in html
        assert f'/posts/{post.id}/more?to={QUOTED}"' in html
        assert f'name="form_token" value="{TOKEN}"' in html
        assert "another" not in html
        assert "form_token" not in draw(kept, post, token=None)


BUTTONS = st.builds(
    Button, on=st.booleans(), count=st.sampled_from(("", "1", "12K")), words=st.sampled_from(("a", "b"))
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "like": BUTTONS,
        "share": BUTTONS,
        "save": BUTTONS,
        "comment": BUTTONS,
        "text": st.sampled_from((Markup("<p>one</p>"), Markup("<p>two</p>"))),
        "sharable": st.booleans(),
        "visibility": st.sampled_from(("public", "unlisted", "followers", "direct")),
        "spoiler": st.sampled_from(("", "a warning")),
        "covered": st.booleans(),
        "folded": st.sampled_from(((), ("Football",))),
        "mine": st.booleans(),
        "pinned": st.booleans(),
        "place": st.sampled_from(("", "47.420,10.980")),
        "answers": st.sampled_from((None, AnsweredPost("ben"), AnsweredPost("ben", "High tide"))),
        "tags": st.sampled_from(((), ("tide",))),
        "why": st.sampled_from((None, WhyView("1.0", "many likes", ()), WhyView("2.0", "near you", ()))),
        "emoji": st.sampled_from(((), (("*", "4", True),), (("*", "4", False),))),
    },
)


@given(st.data())
def test_post_html_cache_renders_changed_post_again(views: list[PostView], data: st.DataObject) -> None:
    kept = PostHtmlCache()
    post = data.draw(st.sampled_from(views))
    for change in data.draw(st.lists(CHANGES, min_size=2, max_size=5)):
        changed: dict[str, Any] = change
        post = replace(post, **changed)
        assert draw(kept, post) == draw(PostHtmlCache(), post)


def test_post_html_cache_is_shared_between_viewers_and_bounded_in_size(views: list[PostView]) -> None:
    sizes = [len(draw(PostHtmlCache(), post, "", "")) for post in views]
    kept = PostHtmlCache(most=sum(sizes))
    draw(kept, views[0], "/one", "token-of-one")
    once = kept.held
    draw(kept, views[0], "/another", "token-of-another")
    assert kept.held == once > 0
    for post in views:
        for n in range(20):
            draw(kept, replace(post, depth=n))
            assert 0 < kept.held <= sum(sizes)
