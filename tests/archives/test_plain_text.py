"""Conversion of a post's HTML to text, and its running time on malformed HTML."""

from __future__ import annotations

import time

import pytest

from shoal.admin.archives.formats.plain_text import plain, unescape

SIZE = 1 << 16


@pytest.mark.parametrize(
    "unit",
    [
        "<a ",
        "<a",
        '<a href="',
        "<a x='",
        "<a b=\"'",
        '<a b=">',
        "<a b=c ",
        "<",
        "</",
        "</a ",
        "<!--",
        "<!-- >",
        "<!-- --!",
        "<!",
        "<?x ",
        "<![CDATA[",
        "<script>",
        "<script></script ",
        "<script></scriptx>",
        "<title><",
        "<p>",
        "<div><p>",
        "<pre> \n",
        "<a href=http://x>y",
        "<a href=http://x>y…</a>",
        "&",
        "&#",
        "&#x",
        "&a",
        "&#9999999999",
        " ",
        "\n",
    ],
)
def test_plain_text_of_malformed_html_takes_linear_time(unit: str) -> None:
    short, long = ((unit * SIZE)[:size] for size in (SIZE, 16 * SIZE))
    # Quadratic time would grow by 256.
    _assert_faster(long, 64 * max(_seconds(short), 0.002))


@pytest.mark.parametrize(
    ("start", "unit", "end"),
    [
        ("<script>", "</script ", ""),
        ("<a class=mention href=http://a", "\u0316\u0301", ">@ann</a>"),
    ],
)
def test_plain_text_of_long_html_element_takes_linear_time(start: str, unit: str, end: str) -> None:
    short, long = (f"{start}{unit * count}{end}" for count in (1_000, 16_000))
    _assert_faster(long, 64 * max(_seconds(short), 0.002))


def _assert_faster(html: str, limit: float) -> None:
    """Assert that one of three readings takes less processor time than the limit, in seconds."""
    times: list[float] = []
    while len(times) < 3:
        times.append(_seconds(html))
        if times[-1] < limit:
            return
    raise AssertionError(f"{times} are not below {limit} seconds")


def _seconds(html: str) -> float:
    started = time.process_time()
    plain(html)
    return time.process_time() - started


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>a < b, 3 <4 &lt;5</p>", "a < b, 3 <4 <5"),
        ("one<!-- two > -->three<!-->four<!DOCTYPE x>", "onethreefour"),
        ("one<br/>two<BR >three", "one\ntwo\nthree"),
        ("<p>one<p>two<ul><li>three<li>four</ul>", "one\n\ntwo\n\n- three\n- four"),
        ("<script>if (a<b) '</p>'</script>one<STYLE>p > a {}</style x>", "one"),
        ("one<script>two", "one"),
        ("<a title=\"a > b\"href='https://example.org/?a&amp;b'>there</a>", "there (https://example.org/?a&b)"),
        ("<a href=https://example.org/x>example.org/x</a>", "https://example.org/x"),
        ('<a href="https://example.org>one</a>', "one"),
        ('before <img src=x alt=":gull:"> after', "before :gull: after"),
        ("kept <a href", "kept"),
        ("kept <!-- one", "kept"),
        ("kept</>", "kept"),
        ("</p></a>kept", "kept"),
    ],
)
def test_plain_text_of_malformed_html_matches_browser_rendering(html: str, text: str) -> None:
    assert plain(html) == text


def test_html_unescape_of_huge_numeric_reference_returns_replacement_character() -> None:
    assert unescape("a&#" + "9" * 5_000 + ";b &#233; &eacute;") == "a\ufffdb é é"
