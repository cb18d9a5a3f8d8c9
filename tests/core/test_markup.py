"""HTML of texts: safe whatever was typed, and the text again when the tags are taken out."""

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
    """Gives the text back, and refuses every tag, attribute and address that is not expected."""

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
        pytest.fail(f"a comment got in: {data}")

    def handle_decl(self, decl: str) -> None:
        pytest.fail(f"a declaration got in: {decl}")

    def handle_pi(self, data: str) -> None:
        pytest.fail(f"an instruction got in: {data}")

    def unknown_decl(self, data: str) -> None:
        pytest.fail(f"a section got in: {data}")


def test_no_text_is_no_html() -> None:
    assert html("") == html("\n\n") == ""


def test_lines_and_paragraphs_are_kept() -> None:
    assert html("\na\nb\n\n\nc\n") == "<p>a<br />b</p><p>c</p>"


def test_what_was_typed_is_escaped() -> None:
    assert html("<b>\"&amp;'") == "<p>&lt;b&gt;&quot;&amp;amp;&#x27;</p>"


def test_a_short_link_is_shown_whole() -> None:
    assert html("http://a.b/?c&d") == (
        '<p><a href="http://a.b/?c&amp;d" target="_blank" rel="nofollow noopener" translate="no">'
        '<span class="invisible">http://</span><span class="">a.b/?c&amp;d</span><span class="invisible"></span></a></p>'
    )


def test_a_long_link_hides_what_follows_its_first_thirty_characters() -> None:
    shown = "example.com/" + "a" * 18
    assert html(f"https://{shown}bcd") == (
        f'<p><a href="https://{shown}bcd" target="_blank" rel="nofollow noopener" translate="no">'
        f'<span class="invisible">https://</span><span class="ellipsis">{shown}</span><span class="invisible">bcd</span></a></p>'
    )


def test_a_mention_links_to_the_account_and_keeps_its_casing() -> None:
    assert html("Hi @Bob!") == (
        '<p>Hi <span class="h-card" translate="no"><a href="https://shoal.example/@bob" class="u-url mention">'
        "@<span>Bob</span></a></span>!</p>"
    )


def test_a_mention_at_our_domain_is_one_of_ours() -> None:
    assert "@<span>Bob@Shoal.Example</span></a></span>" in html("@Bob@Shoal.Example")


@pytest.mark.parametrize("text", ["@nobody", "@bob@elsewhere.example"])
def test_a_mention_of_nobody_here_stays_plain_text(text: str) -> None:
    assert html(text) == f"<p>{text}</p>"


def test_a_tag_links_to_its_canonical_page_and_keeps_its_casing() -> None:
    assert html("#LakeLife") == (
        '<p><a href="https://shoal.example/tags/lakelife" class="mention hashtag" rel="tag">#<span>LakeLife</span></a></p>'
    )


def test_addresses_from_the_caller_are_escaped_too() -> None:
    markup = to_html("@bob #x", mentions={"bob": 'https://a/"b'}, tag_url=lambda name: f"https://a/?t={name}&<")
    assert 'href="https://a/&quot;b"' in markup
    assert 'href="https://a/?t=x&amp;&lt;"' in markup


@given(texts)
def test_taking_the_tags_out_gives_the_typed_text_and_nothing_strange_gets_in(text: str) -> None:
    reader = Reader(html(text))
    assert reader.open == []
    assert reader.text == re.sub(r"\n{2,}", "\n\n", text.strip("\n"))


@given(texts)
def test_outside_of_our_own_tags_nothing_is_left_unescaped(text: str) -> None:
    left = re.sub(r'<(?:/?(?:p|span|a)|br /)(?: [a-z]+="[^"<>]*")*>', "", html(text))
    assert not set('<>"') & set(left)
