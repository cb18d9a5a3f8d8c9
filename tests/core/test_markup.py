"""HTML of texts: safe for any input, and equal to the input once the tags are removed."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.text import to_html

ACCOUNTS = {"bob": "https://shoal.example/@bob", "ann": "https://shoal.example/@ann"}
ALLOWED = {
    "p": set[str](),
    "br": set[str](),
    "a": {"href", "class", "rel", "target", "translate"},
    "span": {"class", "translate"},
}
PIECES = [
    *"@#:/().,;!?&<>\"'_-=\n\n\n \t`\\",
    *(
        "a",
        "B",
        "7",
        "é",
        "日本",
        "\u0301",
        "&amp;",
        "&lt",
        "&#60;",
        "<b>",
        "</p>",
        "<!--",
        "]]>",
        "<script>",
        "onload=",
        "javascript:",
    ),
    *(
        "@bob",
        "@Ann@shoal.example",
        "@bob@evil.example",
        "#Tag",
        "#日本",
        "http://",
        "https://example.com/",
        "http://a.b/c_(d)?e=f&amp",
    ),
    *("https://example.com/" + "x" * 40, 'http://a.b/"onclick="'),
]
texts = st.one_of(
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r")),
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
)


def tag_url(name: str) -> str:
    return f"https://shoal.example/tags/{name}"


def html(text: str) -> str:
    return to_html(text, mentions=ACCOUNTS, tag_url=tag_url, domain="shoal.example")


class Reader(HTMLParser):
    """Collects the text, and fails on any unexpected tag, attribute or URL."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.open: list[str] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert set(names) <= ALLOWED[tag]
        assert len(names) == len(set(names))
        href = dict(attrs).get("href", "https://")
        assert href is not None
        assert re.match("https?://", href, re.IGNORECASE)
        if tag == "p" and self.text:
            self.text += "\n\n"
        if tag == "br":
            self.text += "\n"
        else:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        pytest.fail(f"unexpected comment: {data}")

    def handle_decl(self, decl: str) -> None:
        pytest.fail(f"unexpected declaration: {decl}")

    def handle_pi(self, data: str) -> None:
        pytest.fail(f"unexpected processing instruction: {data}")

    def unknown_decl(self, data: str) -> None:
        pytest.fail(f"unexpected section: {data}")


def test_status_html_of_empty_text_is_empty() -> None:
    assert html("") == html("\n\n") == ""


def test_status_html_keeps_line_breaks_and_paragraphs() -> None:
    assert html("\na\nb\n\n\nc\n") == "<p>a<br />b</p><p>c</p>"


def test_status_html_escapes_user_input() -> None:
    assert html("<b>\"&amp;'") == "<p>&lt;b&gt;&quot;&amp;amp;&#x27;</p>"


def test_status_html_short_link_is_displayed_in_full() -> None:
    assert html("http://a.b/?c&d") == (
        '<p><a href="http://a.b/?c&amp;d" target="_blank" rel="nofollow noopener" translate="no">'
        '<span class="invisible">http://</span><span class="">a.b/?c&amp;d</span><span class="invisible"></span></a></p>'
    )


def test_status_html_long_link_hides_text_after_thirty_characters() -> None:
    shown = "example.com/" + "a" * 18
    assert html(f"https://{shown}bcd") == (
        f'<p><a href="https://{shown}bcd" target="_blank" rel="nofollow noopener" translate="no">'
        f'<span class="invisible">https://</span><span class="ellipsis">{shown}</span><span class="invisible">bcd</span></a></p>'
    )


def test_status_html_mention_links_to_account_and_keeps_case() -> None:
    assert html("Hi @Bob!") == (
        '<p>Hi <span class="h-card" translate="no"><a href="https://shoal.example/@bob" class="u-url mention">'
        "@<span>Bob</span></a></span>!</p>"
    )


def test_status_html_mention_with_own_domain_links_to_local_account() -> None:
    assert "@<span>Bob@Shoal.Example</span></a></span>" in html("@Bob@Shoal.Example")


@pytest.mark.parametrize("text", ["@nobody", "@bob@elsewhere.example"])
def test_status_html_mention_of_unknown_account_stays_plain_text(text: str) -> None:
    assert html(text) == f"<p>{text}</p>"


def test_status_html_hashtag_links_to_canonical_page_and_keeps_case() -> None:
    assert html("#LakeLife") == (
        '<p><a href="https://shoal.example/tags/lakelife" class="mention hashtag" rel="tag">#<span>LakeLife</span></a></p>'
    )


def test_status_html_escapes_mention_and_tag_urls() -> None:
    markup = to_html("@bob #x", mentions={"bob": 'https://a/"b'}, tag_url=lambda name: f"https://a/?t={name}&<")
    assert 'href="https://a/&quot;b"' in markup
    assert 'href="https://a/?t=x&amp;&lt;"' in markup


@given(texts)
def test_status_html_without_tags_equals_typed_text(text: str) -> None:
    reader = Reader(html(text))
    assert reader.open == []
    assert reader.text == re.sub(r"\n{2,}", "\n\n", text.strip("\n"))


@given(texts)
def test_status_html_outside_generated_tags_is_fully_escaped(text: str) -> None:
    left = re.sub(r'<(?:/?(?:p|span|a)|br /)(?: [a-z]+="[^"<>]*")*>', "", html(text))
    assert not set('<>"') & set(left)
