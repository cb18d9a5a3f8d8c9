"""Texts are validated on input and parsed for mentions, hashtags and links; parsing runs in linear time."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.text import (
    LINK_LENGTH,
    MAX_TAG,
    RESERVED,
    as_text,
    canonical_tag,
    check_email,
    check_tag,
    check_text,
    check_user_name,
    is_blank,
    isolated,
    mentions_of,
    parse,
    plain_excerpt,
    tags_of,
    text_length,
    unaddressed,
)
from shoal.core.tokenizer import fold
from tests.example_counts import DEEP

# Combinations of these pieces find more bugs than characters drawn from all of Unicode.
PIECES = [
    *"@#:/().,;!?&<>\"'_-=\n \t",
    *(
        "a",
        "B",
        "7",
        "é",
        "日本",
        "e\u0301",
        "\u0301",
        "हिन्दी",
        "ſ",
        "K",
        "İ",
        "ΟΔΟΣ",
        "·",
        "・",
        "\u200c",
        "½",
        "\ufdfa",
        "…",
        "❤️",
    ),
    *(
        "@bob",
        "@Bob@example.com",
        "#Tag",
        "#日本",
        "http://",
        "https://example.com",
        "http://a.b/c_(d)",
        "&amp;",
        "<b>",
    ),
]
texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map("".join))

HOSTILE = [
    *("@", "#", "(", ")", "]", "a.", "http://", "https://", "://", ":", "&#", "\n", "é", "\u0301"),
    *("http://a/(", "http://a/()", "http://a)", "http://a.", "http://a/((x)", "http://a/(()", "http://a/."),
    *("@a@", "@a@a.", "@" + "a" * 40, "#a…", "#a\u0301", "#é", " #é", "é#a日http://x"),
]


def values(text: str, kind: str) -> list[str]:
    return [span.value for span in parse(text) if span.kind == kind]


def links(text: str) -> list[str]:
    return values(text, "link")


def tags(text: str) -> list[str]:
    return values(text, "tag")


def test_text_parser_of_plain_text_returns_no_spans() -> None:
    assert parse("") == ()
    assert parse("nothing to see: here (or there)") == ()


def test_text_parser_returns_kind_position_and_value_of_spans() -> None:
    text = "Hi @Ann, see https://example.com/a. #LakeLife"
    assert [(span.kind, text[span.start : span.end], span.value) for span in parse(text)] == [
        ("mention", "@Ann", "ann"),
        ("link", "https://example.com/a", "https://example.com/a"),
        ("tag", "#LakeLife", "lakelife"),
    ]


@given(texts)
def test_text_parser_spans_are_ordered_and_do_not_overlap(text: str) -> None:
    at = 0
    for span in parse(text):
        assert at <= span.start < span.end <= len(text)
        at = span.end


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("before", ["", "http://a/("])
def test_text_parser_reads_large_hostile_text_in_linear_time(before: str, piece: str) -> None:
    # A quadratic parser exceeds the test timeout; a shorter limit would depend on the load of the machine.
    parse(before + piece * ((1_000_000 if DEEP else 150_000) // len(piece)))


# Mentions


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@bob", ["bob"]),
        ("(@bob), .@ann: @bob's", ["bob", "ann", "bob"]),
        ("@BOB_7 @bobさん", ["bob_7", "bob"]),
        ("@@bob", ["bob"]),
        ("@" + "a" * 30, ["a" * 30]),
        ("@" + "a" * 31, []),
        ("bob@example.com and /@bob and ?u=@bob", []),
        ("@ @- @é @\u212a", []),
        ("https://example.com/@bob", []),
    ],
)
def test_mention_in_running_text_is_recognized(text: str, names: list[str]) -> None:
    assert values(text, "mention") == names


def test_mention_with_domain_is_parsed() -> None:
    (span,) = parse("cc @Bob@Example.COM.")
    assert (span.value, span.domain, span.end) == ("bob", "example.com", 19)
    assert [span.domain for span in parse("@a@müller.de @b@localhost @c@ @d")] == ["müller.de", "localhost", "", ""]


def test_text_parser_returns_only_local_mentions_as_members() -> None:
    text = "@Bob @ann@here.example @BOB @eve@elsewhere.example"
    assert mentions_of(text) == ("bob",)
    assert mentions_of(text, domain="Here.Example") == ("bob", "ann")


# Tags


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#Tag #tag2, (#x).", ["tag", "tag2", "x"]),
        ("#2024 #2024wrap #_", ["2024wrap", "_"]),
        ("a#b /#c &#39; (d)#e é#f", []),
        ("#日本語、#हिन्दी！#Größe", ["日本語", "हिन्दी", "grösse"]),
        ("#l·l #a· #·a #می\u200cخواهم", ["l·l", "a", "می\u200cخواهم"]),
        ("#️⃣ #1️⃣ #love❤️", ["love"]),
        ("#ශ්\u200dරී_ලංකා #क्\u200dष #a\u200db #क\u200dष #क्\u200d", ["ශ්\u200dරී_ලංකා", "क्\u200dष", "a", "क", "क्"]),
        ("#ら〜めん #ら～めん #ら〜 #〜ら #🏳️\u200d🌈", ["ら〜めん", "ら〜めん", "ら"]),
        ("#a-b #c’s #d…", ["a", "c", "d"]),
        ("#½ #１２ #１２ａ", ["12a"]),
        ("#\ufdfa", []),
        ("##a #b#c", ["a", "b"]),
        ("#" + "a" * 100 + " #" + "a" * 101 + " #" + "é" * 101, ["a" * 100]),
        ("https://example.com/#section", []),
    ],
)
def test_hashtag_in_running_text_is_recognized(text: str, found: list[str]) -> None:
    assert tags(text) == found


def test_text_parser_returns_first_spelling_of_repeated_hashtag_once() -> None:
    assert tags_of("#LakeLife #b #lakelife #Ｂ") == (("lakelife", "LakeLife"), ("b", "b"))


@given(st.text())
def test_canonical_tag_is_idempotent(name: str) -> None:
    canonical = canonical_tag(name)
    assert canonical_tag(canonical) == canonical
    assert len(canonical) <= MAX_TAG


def test_canonical_tag_of_every_code_point_is_stable_and_ignores_case() -> None:
    wrong = []
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        canonical = canonical_tag(character)
        # The capital of the dotless i is the ASCII letter.
        others = {character.lower(), character.casefold(), character.upper() if character != "ı" else "ı", canonical}
        if {canonical_tag(other) for other in others} != {canonical} or len(canonical) > 18:
            wrong.append(f"U+{code:04X}")
    assert wrong == []


@given(st.text(alphabet=st.sampled_from("iIİıǰΐſßẞςΣé\u0301\u0307\u0316\u0323\u0328\u0345\u200dＢﬁ")))
def test_canonical_tag_of_marks_in_any_order_is_stable(name: str) -> None:
    canonical = canonical_tag(name)
    assert canonical_tag(canonical) == canonical
    assert "i\u0307" not in canonical


@pytest.mark.parametrize(
    ("canonical", "spellings"),
    [
        ("strasse", ["straße", "STRASSE", "Straẞe", "ſtrasse"]),
        ("istanbul", ["İstanbul", "istanbul", "ISTANBUL", "I\u0307stanbul", "i\u0307stanbul"]),
        ("ıstanbul", ["ıstanbul"]),
        ("οδοσ", ["ΟΔΟΣ", "οδος", "οδοσ"]),
        ("fin", ["ﬁn", "FIN"]),
        ("ᏣᎳᎩ", ["ᏣᎳᎩ", "ꮳꮃꭹ"]),
        ("եւ", ["և", "ԵՒ", "Եւ"]),
        ("αι", ["ᾳ", "ᾼ", "ΑΙ"]),
    ],
)
def test_canonical_tag_of_any_case_is_the_same_and_spelling_is_kept(canonical: str, spellings: list[str]) -> None:
    for spelling in spellings:
        assert tags_of(f"#{spelling}") == ((canonical, spelling),)
        assert check_tag(spelling) == canonical


@pytest.mark.parametrize(("name", "found"), [("ß" * 50, ["s" * 100]), ("ß" * 51, []), ("İ" * 100, ["i" * 100])])
def test_hashtag_whose_folded_form_is_too_long_is_plain_text(name: str, found: list[str]) -> None:
    assert tags(f"#{name}") == found
    assert canonical_tag(name) == "".join(found)


def test_canonical_tag_of_prefix_is_prefix_of_canonical_tag() -> None:
    for tag, beginning in [("straße", "straß"), ("STRASSE", "straß"), ("οδος", "Οδος"), ("İstanbul", "i̇s")]:
        assert canonical_tag(tag).startswith(canonical_tag(beginning))
        assert fold(tag).startswith(fold(beginning))


@given(st.one_of(texts, st.text().map(lambda name: "#" + name)))
def test_canonical_tag_and_displayed_tag_are_valid_hashtags(text: str) -> None:
    for canonical, displayed in tags_of(text):
        assert canonical == canonical_tag(displayed)
        assert tags_of(f"#{canonical}") == ((canonical, canonical),)
        assert check_tag(displayed) == check_tag(f"#{canonical}") == canonical


@pytest.mark.parametrize("name", ["", "#", "2024", "a b", "a-b", "a" * 101, "·", "##a", "\ufdfa", "a\n"])
def test_check_tag_with_invalid_tag_is_rejected(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_tag(name)
    assert caught.value.field == "tag"


# Links


@pytest.mark.parametrize(
    "link",
    [
        "http://localhost:3000/a?b=c&d=e#f",
        "HTTPS://Example.COM",
        "https://en.wikipedia.org/wiki/Shoal_(fish)",
        "https://example.com/(a(b)c)/d",
        "https://müller.example/straße",
        "http://उदाहरण.परीक्षा/पथ",
        "https://example.com/@bob/#tag",
        "https://example.com/a[0]=1,2",
        "https://example.com/?q=a.b!c",
        "https://example.com#c",
    ],
)
def test_link_inside_and_at_end_of_sentence_is_matched_in_full(link: str) -> None:
    for text in (
        link,
        f"({link})",
        f"see {link}.",
        f"“{link}”…",
        f"[{link}]!?",
        f"見て{link}、これ",
        f"<{link}>",
        f"<a href='{link}'>",
    ):
        assert links(text) == [link], text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("http://a.b/c(d", ["http://a.b/c"]),
        ("http://a.b/c)d", ["http://a.b/c"]),
        ("http://a.b? http://a.b/? http://a.b/.", ["http://a.b", "http://a.b/", "http://a.b/"]),
        ("http://a.b:80. http://a.b:x", ["http://a.b:80", "http://a.b"]),
        ("javascript:alert(1) javascript://a.b data://a.b ftp://a.b", []),
        ("http:// http:/// http://. http://-a xhttp://a.b @http://a.b", []),
        ("http://good.example@evil.example/", ["http://good.example"]),
        ("http://a.b/\u202egpj.exe", ["http://a.b/"]),
        ("http://a.b/c\nhttps://d.e", ["http://a.b/c", "https://d.e"]),
    ],
)
def test_link_ends_before_punctuation_and_has_http_scheme(text: str, found: list[str]) -> None:
    assert links(text) == found


def test_hashtag_followed_directly_by_link_is_parsed_as_hashtag_only() -> None:
    assert [span.kind for span in parse("#日本http://a.b")] == ["tag"]


# Lengths and checks


def test_text_length_counts_links_and_mention_domains_like_clients() -> None:
    assert text_length("plain é") == 7
    assert text_length(f"a https://example.com/{'b' * 500} c") == LINK_LENGTH + 4
    assert text_length("http://a.b") == LINK_LENGTH
    assert text_length("hi @bob@example.com and @ann") == len("hi @bob and @ann")
    assert text_length("@bob@İ.example") == len("@bob")


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", 1),
        ("\U0001f44d\U0001f3fd\u2764\ufe0f", 2),
        ("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7\U0001f1e9", 3),
        ("\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", 1),
        ("q\u0307\u0323x", 2),
        ("\u0928\u092e\u0938\u094d\u0924\u0947", 3),
        ("\u6f6e \u6f6e", 3),
        ("https://example.org/\u00e9\u0301 \U0001f1e9\U0001f1ea @ann@m\u00fcller.example", LINK_LENGTH + 7),
    ],
)
def test_text_length_of_characters_of_several_code_points_counts_each_once(text: str, length: int) -> None:
    assert text_length(text) == length


def test_check_text_counts_characters_and_bounds_bytes() -> None:
    family = "\U0001f468\u200d\U0001f469"
    assert check_text(family * 10, field="display_name", maximum=10) == family * 10
    with pytest.raises(TooLarge, match="display_name has 11 characters; the maximum is 10"):
        check_text(family * 11, field="display_name", maximum=10)
    with pytest.raises(TooLarge, match="display_name has 1104 bytes; the maximum is 160"):
        check_text("\U0001f468" + (family[1:] + "\u200d") * 110, field="display_name", maximum=10)


def test_check_text_normalizes_to_nfc_and_line_feeds() -> None:
    assert check_text("e\u0301\r\n\tb", field="status", maximum=4) == "é\n\tb"


def test_check_text_with_any_line_ends_returns_line_feeds() -> None:
    assert check_text("a\rb\r\nc\r\r\nd\n\re", field="status", maximum=100) == "a\nb\nc\n\nd\n\ne"


@pytest.mark.parametrize("code", [0x0, 0x8, 0xB, 0x1B, 0xD800, 0xDFFF])
def test_check_text_with_control_or_surrogate_character_is_rejected(code: int) -> None:
    with pytest.raises(InvalidInput, match=rf"note contains .* U\+{code:04X}") as caught:
        check_text(f"a{chr(code)}b", field="note", maximum=100)
    assert caught.value.field == "note"


@pytest.mark.parametrize("mark", ["\u0301", "\u0327\u0301", "\uff9e", "\u0344"])
def test_check_text_with_more_than_30_marks_in_a_row_is_refused(mark: str) -> None:
    assert check_text("a" + mark * 15, field="note", maximum=100)
    with pytest.raises(InvalidInput, match="note: at most 30 combining marks in a row") as caught:
        check_text("a" + mark * 33, field="note", maximum=100)
    assert caught.value.field == "note"


@pytest.mark.parametrize("mark", ["\u0301", "\u0344"])
def test_text_sanitizer_with_many_marks_keeps_at_most_30(mark: str) -> None:
    kept = as_text(f"<{mark * 500}>")
    assert check_text(kept, field="note", maximum=100) == unicodedata.normalize("NFC", kept)
    assert (kept[0], kept[-1], len(kept)) == ("<", ">", 32)


def test_hashtag_with_many_combining_marks_is_plain_text() -> None:
    assert tags("#a" + "\u0301" * 40) == []
    assert tags("#a" + "\u0301" * 20) != []


@pytest.mark.parametrize("length", [11, 1_000_000])
def test_check_text_too_long_error_reports_both_lengths(length: int) -> None:
    with pytest.raises(TooLarge, match=f"note has {length} characters; the maximum is 10") as caught:
        check_text("a" * length, field="note", maximum=10)
    assert caught.value.field == "note"


def test_check_text_of_post_with_link_longer_than_limit_is_accepted() -> None:
    text = "http://a.b/" + "c" * 1000
    assert check_text(text, field="status", maximum=500, length=text_length) == text
    with pytest.raises(TooLarge):
        check_text(text, field="status", maximum=500)


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc"])))
def test_check_text_is_idempotent(text: str) -> None:
    once = check_text(text, field="status", maximum=10_000)
    assert check_text(once, field="status", maximum=10_000) == once
    assert once == ("" if is_blank(text) else unicodedata.normalize("NFC", text))


def test_check_user_name_returns_lower_case() -> None:
    assert check_user_name("Anna_K7") == "anna_k7"


@pytest.mark.parametrize("name", ["", "a" * 31, "a-b", "a b", "é", "\u212a", "a\n", "@a", "Admin", *sorted(RESERVED)])
def test_check_user_name_invalid_or_reserved_is_rejected(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_user_name(name)
    assert caught.value.field == "username"


@pytest.mark.parametrize("address", ["a@b.example", "A.B+c@Mail.Example.ORG", " me@localhost ", "ü@müller.example"])
def test_check_email_returns_lower_case(address: str) -> None:
    assert check_email(address) == address.strip().lower()


NO_ADDRESSES = [
    *("", "a", "@", "a@", "@b.example", "a@b", "a@@b.c", "a@b@c.d", "a b@c.d", "a@b..c", "a@.b", "a@b.", "<a@b.c>"),
    *("a@b.c\x00", "a\n@b.c", "a" * 65 + "@b.c", "a@" + "b" * 252 + ".c", "\ud800@b.c"),
    *("a%evil.com@ok.org", "evil.com!a@ok.org", "=?utf-8?q?a?=@ok.org", "=?x?q?=41=42?=@ok.org", "a|b@ok.org"),
    *(".a@ok.org", "a.@ok.org", "a..b@ok.org", ".@ok.org", "a@-ok.org", "a@ok-.org", "a@ok.org-", "a@ok.org."),
    *(
        "a\uff05evil.com@ok.org",
        "a\uff0e\uff0eb@ok.org",
        "a\ufdfa@ok.org",
        "a\u200db@ok.org",
        "a\ufe0fb@ok.org",
        "a\u00adb@ok.org",
    ),
]


@pytest.mark.parametrize(
    "typed",
    ["ann@ok.org", "\uff41nn@ok.org", "ann\uff20ok.org", "ann@ok\uff0eorg", "\U0001d41aNN@ok.org", " Ann@OK.org\n"],
)
def test_check_email_of_any_spelling_returns_its_normal_form(typed: str) -> None:
    assert check_email(typed) == "ann@ok.org"


@pytest.mark.parametrize(
    "address",
    [
        "o'hara@ok.org",
        "a.b+c=d_e-f@ok.org",
        "\u0938\u0902\u092a\u0930\u094d\u0915@\u0921\u093e\u091f\u093e.\u092d\u093e\u0930\u0924",
    ],
)
def test_check_email_of_a_dot_atom_in_any_script_is_accepted(address: str) -> None:
    assert check_email(address) == address


@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_check_email_with_invalid_address_is_rejected(address: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_email(address)
    assert caught.value.field == "email"


@pytest.mark.parametrize(
    ("text", "excerpt"),
    [
        ("", ""),
        ("short", "short"),
        ("\n\n first \nsecond", "first"),
        ("exactly10!", "exactly10!"),
        ("one two three", "one two…"),
        ("one two34 five", "one two34…"),
        ("abcdefghijklmnop", "abcdefghi…"),
    ],
)
def test_plain_excerpt_is_first_line_cut_after_a_word(text: str, excerpt: str) -> None:
    assert plain_excerpt(text, 10) == excerpt


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_plain_excerpt_never_exceeds_limit(text: str, limit: int) -> None:
    excerpt = plain_excerpt(text, limit)
    assert len(excerpt) <= limit
    assert "\n" not in excerpt


@given(st.text(st.characters(codec=None)))
def test_text_sanitizer_output_passes_check_text(text: str) -> None:
    ours = as_text(f"a\r\n\x00{text}\ud800\rb")
    assert check_text(ours, field="text", maximum=10_000) == unicodedata.normalize("NFC", ours)
    assert (ours[:2], ours[-2:], "\r" in ours) == ("a\n", "\nb", False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ann", "Ann"),
        ("Anna Müller", "Anna Müller"),
        ("\u202eevil", "evil"),
        ("a\u2066b\u2069c\u202a", "abc"),
        ("שלום", "\u2068שלום\u2069"),
        ("مرحبا", "\u2068مرحبا\u2069"),
        ("\u2068שלום\u2069", "\u2068שלום\u2069"),
        ("a \u202eב", "\u2068a ב\u2069"),
        ("a\u200f", "\u2068a\u200f\u2069"),
    ],
)
def test_isolated_text_does_not_change_direction_of_surrounding_text(text: str, expected: str) -> None:
    assert isolated(text) == expected
    assert isolated(expected) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@bob, @Ann hi @bob", "hi @bob"),
        ("@bob@other.example hi", "@bob@other.example hi"),
        ("@eve @bob hi", "@eve @bob hi"),
    ],
)
def test_post_text_for_display_omits_leading_mentions_of_known_members_only(text: str, expected: str) -> None:
    assert unaddressed(text, {"ann", "bob"}) == expected
