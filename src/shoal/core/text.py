"""Validate and parse text that users type: mentions, tags and links; render it as HTML for Mastodon clients.

Parsing takes linear time on any input: each repetition in the pattern matches only characters with which the next part of the
pattern cannot start, so there is no backtracking. The HTML contains no unescaped input. Without its markup it is the original text,
except that blank lines become paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from html import escape
from typing import Literal, NamedTuple
from unicodedata import category, combining, is_normalized, normalize

import regex

from shoal.core.errors import InvalidInput, Reserved, TooLarge

MAX_TAG = 100
"""Maximum characters of a tag, without its `#`. A longer one is treated as plain text."""

MAX_USER_NAME = 30
MAX_EMAIL = 254
MAX_MARKS = 30
"""Maximum combining marks in a row, as in the Stream-Safe Text Format (UAX #15, section 13)."""

BYTES_PER_CHARACTER = 16
"""Factor from the maximum characters of a text to its maximum bytes: one character may have many code points."""
_MORE_BYTES = 4_096
"""Additional bytes that a post may have, for long links."""

LINK_LENGTH = 23
"""Characters that a link counts as, regardless of its length: the number that Mastodon's clients use."""

_RESERVED = """
    about abuse account accounts admin administrator api app assets auth authorize bookmarks comments developers everyone
    explore favicon federation feed feeds follow followers following health help home inbox info instance invite likes lists
    local login logout media members metrics mod moderator myself nobody nodeinfo notifications oauth outbox owner password
    post posts privacy public register robots root rules search security settings share shoal signup static status statuses
    streaming suggestions support system tags terms timeline timelines trends users web webmaster www
"""
RESERVED = frozenset(_RESERVED.split())
"""User names that only the operator may assign: paths of the server, and names that suggest authority."""

_EXPLICIT_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\u200f\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
"""Unicode blocks whose characters are right-to-left by default, and marks that set this direction."""
# Characters that end a link anywhere: spaces, controls, direction marks (which could display another address than the one that
# opens), quotation marks, and the punctuation of scripts without spaces.
_END = (
    r"\s\x00-\x1f\x7f-\x9f\u00ab\u00bb\u200b-\u201f\u2026\u202a-\u202e\u2060-\u206f\u3001-\u3003\u3008-\u3011"
    r"\u3014-\u301b\ud800-\udfff\ufeff\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f\uff3b\uff3d\uff5b\uff5d\uff5f-\uff64"
    r"()<>\"`\\"
)
# These characters belong to a link only if another character of the link follows, because a link may end a sentence.
_WEAK = r".,:;!?'*~|^{}\[\]"
_NOT_HOST = rf"{_END}\x00-,./:-@\[-^{{-\x7f"
_LABEL = rf"[^{_NOT_HOST}_\-][^{_NOT_HOST}]*+"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*"
_IN_PARENTHESES = rf"\((?:[^{_END}]++|\([^{_END}]*+\))*\)"
_TAIL = rf"(?:[{_WEAK}]*+(?:[^{_END}{_WEAK}]++|{_IN_PARENTHESES}))+"

# Each alternative of the pattern begins with its rarest character and then looks back, so that the search skips from one `@`, `#`
# or `:` to the next. User names are not case-folded here, which excludes `ſ` and `K` (the Kelvin sign).
_SPANS = re.compile(
    rf"@(?<![\w/=]@)([A-Za-z0-9_]{{1,{MAX_USER_NAME}}}+)(?![A-Za-z0-9_])(?:@({_HOST}))?"
    r"|#(?<![\w/&)]#)([0-9A-Za-z_\x80-\U0010ffff]++)"
    r"|:(?:(?<=[hH][tT][tT][pP]:)(?<![A-Za-z0-9_@#$][hH][tT][tT][pP]:)"
    r"|(?<=[hH][tT][tT][pP][sS]:)(?<![A-Za-z0-9_@#$][hH][tT][tT][pP][sS]:))"
    rf"//({_HOST}(?::[0-9]{{1,5}}+)?(?:(?=[/?#]){_TAIL})?)"
)
_DOMAIN, _TAG = 2, 3  # Groups of the pattern.

# Separators are allowed inside a tag but not at its ends: middle dots, wave dashes, the non-joiner of Persian, and the joiner of
# Indic conjuncts.
_SEPARATORS = "\u00b7\u30fb\uff65\u301c\uff5e\u200c\u200d"
_JOINER = "\u200d"
_VIRAMA = 9
"""The combining class of the signs that precede a joiner in a conjunct, such as ක්‍ෂ."""
_WAVE_DASH = {0xFF5E: 0x301C}
"""Maps the full-width tilde, which Japanese keyboards type, to the wave dash: NFKC would make it an ASCII tilde."""
_DOTTED_I = re.compile("i\u0307+")
_FOLDED_LENGTH = 3  # maximum code points that case folding makes from a single one
_FOLDED_FURTHER = re.compile("i\u0307|\uff5e")
_ADDRESSED = re.compile(r"\s*@(\w+)(?=[\s,:]|$)[,:]?")
_TAG_RUN = re.compile(r"[0-9A-Za-z_\x80-\U0010ffff]+")
# Count the half-width voiced sound marks of katakana as marks: they are letters whose compatibility decomposition is a mark.
_MARK = r"[\p{M}\uff9e\uff9f]"
_WORD = regex.compile(r"[\p{L}\p{N}\p{M}\p{Pc}\uff5e\uff65]+")
_MANY_MARKS = regex.compile(rf"(?<!{_MARK}){_MARK}{{{MAX_MARKS}}}\K{_MARK}+")
# List Braille pattern blank, the Egyptian blanks, the null note head and the interlinear annotations too: they are invisible, but
# not ignorable.
_INVISIBLE = r"\s\p{Cc}\p{Default_Ignorable_Code_Point}\u2800\ufff9-\ufffb\U00013441\U00013442\U0001d159"
_VISIBLE = regex.compile(rf"[^{_INVISIBLE}]")
_INVISIBLE_ENDS = regex.compile(rf"\A[{_INVISIBLE}]++|(?<![{_INVISIBLE}])[{_INVISIBLE}]++\Z")
_INVISIBLE_RUN = regex.compile(rf"[{_INVISIBLE}]+")
_CLUSTER = regex.compile(r"\X")
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]{2}")
_LINE_ENDS = re.compile(r"\r\n?")
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\ud800-\udfff]")
_USER_NAME = re.compile(rf"[A-Za-z0-9_]{{1,{MAX_USER_NAME}}}")
_LABELS = r"(?:(?:[\w-]++\.)+[\w-]++|localhost)"
_EMAIL = regex.compile(rf"[^@\s<>()\[\],:;\"\\]{{1,64}}@{_LABELS}")
_ATOM = r"[\w#$&'*+/=^`{}~-]++"
_STRICT_EMAIL = regex.compile(
    rf"(?!.*\p{{Default_Ignorable_Code_Point}}){_ATOM}(?:\.{_ATOM})*@(?!-|.*(?:-\.|\.-|-$)){_LABELS}"
)
_NO_EMAIL = f"an e-mail address is name@domain, at most {MAX_EMAIL} characters"


class Span(NamedTuple):
    """A mention, tag or link, at `text[start:end]`.

    `value` is the lower-case user name, the canonical tag, or the link as typed. `domain` is in lower case, and only set for a
    mention that has a domain (`@user@domain`).
    """

    kind: Literal["mention", "tag", "link"]
    start: int
    end: int
    value: str
    domain: str = ""


@lru_cache(maxsize=64)  # Cached, because the length, mentions and tags of a new text are computed one after the other.
def parse(text: str) -> tuple[Span, ...]:
    """Return the mentions, tags and links of a text, in order, without overlaps. Names are not looked up."""
    if "@" not in text and "#" not in text and "://" not in text:
        return ()
    spans: list[Span] = []
    end = 0
    for match in _SPANS.finditer(text):
        start = match.start()
        group = match.lastindex or 0
        if group <= _DOMAIN:
            end = match.end()
            spans.append(Span("mention", start, end, match[1].lower(), (match[2] or "").lower()))
        elif group == _TAG:
            name = _leading_tag(match[3])
            if name:
                end = start + 1 + len(name)
                spans.append(Span("tag", start, end, canonical_tag(name)))
        else:
            start -= 5 if text[start - 1] in "sS" else 4
            # Skip a link whose "http" belongs to the preceding tag, as is possible in a script without spaces.
            if start >= end:
                end = match.end()
                spans.append(Span("link", start, end, text[start:end]))
    return tuple(spans)


def canonical_tag(name: str) -> str:
    """Return the canonical form shared by all spellings of a tag: NFKC, case-folded. Idempotent.

    Any string has a canonical form, so that prefixes of tags can be looked up; "" for a string that is too long to be a
    tag.
    """
    if len(name) > MAX_TAG:
        return ""
    canonical = _folded(name)
    return canonical if len(canonical) <= MAX_TAG else ""


def _folded(text: str) -> str:
    """Return the canonical form of a text as a tag: NFKC, case-folded.

    Case folding turns `İ` into `i` and a combining dot, which is removed; the dotless `ı` is another letter.
    """
    if text.isascii():
        return text.lower()
    # Normalize twice, because a letter and a mark may compose in lower case and not in upper case (H and a line below).
    folded = normalized("NFKC", normalized("NFKC", text.translate(_WAVE_DASH)).casefold())
    if "i\u0307" in folded:
        folded = normalized("NFKC", _DOTTED_I.sub("i", folded))
    return folded


def with_folded_words(text: str) -> str:
    """Return a text with each word in the canonical form of a tag. Other characters, such as `™`, are unchanged."""
    if text.isascii():
        return text.lower()
    folded = text.casefold()
    # Most texts need no normalization, and checking this is much faster than the replacement below.
    if not (_has_many_marks(folded) or _FOLDED_FURTHER.search(folded)) and is_normalized("NFKC", folded):
        return folded
    further: str = _WORD.sub(lambda word: _folded(word[0]), text)
    return further


def check_tag(name: str) -> str:
    """Return the canonical form of a tag, given with or without its `#`. Raises `InvalidInput` if it is not a tag."""
    name = name.removeprefix("#")
    if not _TAG_RUN.fullmatch(name) or _leading_tag(name) != name:
        raise InvalidInput(
            f"a tag is 1 to {MAX_TAG} letters, digits and underscores, and not digits alone",
            field="tag",
        )
    return canonical_tag(name)


@lru_cache(maxsize=64)  # Cached, because the tags of a new post and their spellings are computed one after the other.
def tags_of(text: str) -> tuple[tuple[str, str], ...]:
    """Return a text's distinct tags as (canonical, displayed) pairs, in order, displayed as first typed."""
    tags: dict[str, str] = {}
    for span in parse(text):
        if span.kind == "tag":
            tags.setdefault(span.value, text[span.start + 1 : span.end])
    return tuple(tags.items())


def mentions_of(text: str, domain: str = "") -> tuple[str, ...]:
    """Return the distinct lower-case names of local members mentioned in a text, in order.

    A mention is local if it has no domain, or this server's `domain`.
    """
    here = ("", domain.lower())
    return tuple(dict.fromkeys(span.value for span in parse(text) if span.kind == "mention" and span.domain in here))


def addressed(text: str, names: Sequence[str], domain: str = "") -> str:
    """Return the text with a mention of each of these members. Missing mentions are added at the start."""
    mentioned = mentions_of(text, domain)
    missing = [f"@{name}" for name in names if name.lower() not in mentioned]
    return " ".join([*missing, text] if text else missing) if missing else text


def unaddressed(text: str, known: Collection[str]) -> str:
    """Return the text without its leading mentions of these members. Mentions with a domain are kept."""
    at = 0
    while (match := _ADDRESSED.match(text, at)) is not None and match[1].lower() in known:
        at = match.end()
    return text[at:].strip() if at else text


def character_count(text: str) -> int:
    """Return the length of a text in user-perceived characters: grapheme clusters (UAX #29)."""
    if text.isascii():
        return len(text)
    # Replace flags (two regional indicators) first, because `\X` takes time quadratic in a run of them.
    return len(_CLUSTER.findall(_FLAG.sub("a", text)))


def text_length(text: str) -> int:
    """Return the length in characters as Mastodon clients count: a link counts as 23, and `@user@domain` as `@user`."""
    length = character_count(text)
    for span in parse(text):
        if span.kind == "link":
            length += LINK_LENGTH - character_count(text[span.start : span.end])
        elif span.domain:
            length -= character_count(text[span.start : span.end]) - len(f"@{span.value}")
    return length


Form = Literal["NFC", "NFD", "NFKC", "NFKD"]


def normalized(form: Form, text: str) -> str:
    """Return a Unicode normalization form of any text.

    Combining marks beyond `MAX_MARKS` in a row are removed first, because normalization sorts each run of marks in time quadratic
    in its length. Always use this function for untrusted text.
    """
    return text if text.isascii() else normalize(form, _without_many_marks(text))


def _has_many_marks(text: str) -> bool:
    return not text.isascii() and _MANY_MARKS.search(text) is not None


def _without_many_marks(text: str) -> str:
    return text if text.isascii() else _MANY_MARKS.sub("", text)


def is_blank(text: str) -> bool:
    """Return whether a text has no visible character, but only spaces, controls and characters without a glyph."""
    return _VISIBLE.search(text) is None


def visible(text: str) -> str:
    """Return the visible characters of a text. Texts with equal results look alike."""
    shown: str = _INVISIBLE_RUN.sub("", text)
    return shown


def isolated(text: str) -> str:
    """Return a short text, such as a name, in a form that cannot change the direction of the text around it.

    Embeddings, overrides and isolates are removed, as in Unicode Standard Annex #9, 6.5. Right-to-left text is enclosed in
    FIRST STRONG ISOLATE and POP DIRECTIONAL ISOLATE, which work in attributes, mails and notifications too. Idempotent.
    """
    if text.isascii():
        return text
    text = _EXPLICIT_DIRECTION.sub("", text)
    return f"\u2068{text}\u2069" if _RIGHT_TO_LEFT.search(text) else text


def check_text(text: str, *, field: str, maximum: int, length: Callable[[str], int] = character_count) -> str:
    """Return the text as it is stored: NFC, with `\\n` line ends; "" for a blank text.

    Raises `InvalidInput` for characters that are not allowed, and `TooLarge` for more than `maximum` characters, counted by
    `length`, or for more than `BYTES_PER_CHARACTER` bytes per allowed character. For posts, `length` is `text_length`.
    """
    if not text:
        return text
    most = BYTES_PER_CHARACTER * maximum + (_MORE_BYTES if length is text_length else 0)
    if text.isascii():
        if len(text) > most:
            raise _too_long(len(text), field, maximum)
    elif (size := len(text.encode("utf-8", "surrogatepass"))) > most:
        raise TooLarge(f"{field} has {size} bytes; the maximum is {most}", field=field)
    text = with_line_ends(text)
    wrong = _NOT_TEXT.search(text)
    if wrong:
        raise InvalidInput(f"{field} contains a character that is not allowed: U+{ord(wrong[0]):04X}", field=field)
    composed = normalized("NFC", text)
    # Check the composed text too: some marks become two marks in NFC, and stored text must pass this check again.
    if _has_many_marks(text) or _has_many_marks(composed):
        raise InvalidInput(f"{field}: at most {MAX_MARKS} combining marks in a row", field=field)
    actual = length(composed)
    if actual > maximum:
        raise _too_long(actual, field, maximum)
    return "" if is_blank(composed) else composed


def with_line_ends(text: str) -> str:
    return _LINE_ENDS.sub("\n", text)


def as_text(text: str) -> str:
    """Return an untrusted text with normalized line ends, without the characters that a post may not contain."""
    text = _without_many_marks(_NOT_TEXT.sub("", with_line_ends(text)))
    composed = normalized("NFC", text)
    return _without_many_marks(composed) if _has_many_marks(composed) else text


def check_user_name(name: str, *, reserved: bool = False) -> str:
    """Return the lower-case form of a user name for a new member. Raises `InvalidInput` if it is not allowed.

    Does not check whether the name is taken. With `reserved`, names that only the operator may assign are allowed.
    """
    if not _USER_NAME.fullmatch(name):
        wrong = TooLarge if len(name) > MAX_USER_NAME else InvalidInput
        raise wrong(
            f"a user name must have 1 to {MAX_USER_NAME} characters, from a-z, 0-9 and underscore",
            field="username",
        )
    name = name.lower()
    if name in RESERVED and not reserved:
        raise Reserved(f"the user name {name} is reserved", field="username")
    return name


def account_as_typed(text: str) -> str:
    """Return a user name or email address as typed, without surrounding invisible characters, and with an ASCII `@`."""
    stripped: str = _INVISIBLE_ENDS.sub("", text)
    return stripped.replace("\uff20", "@").replace("\ufe6b", "@")


def normalized_email(address: str) -> str:
    """Return the normalized form in which email addresses are compared: NFKC, in lower case.

    Raises `InvalidInput` for an invalid address. It accepts addresses that `check_email` rejects, because existing members may
    have them.
    """
    address = address.strip()
    if len(address) > MAX_EMAIL:
        raise TooLarge(_NO_EMAIL, field="email")
    # Normalize twice, as for a tag: after conversion to lower case, a letter and a mark may compose that do not in upper case.
    address = normalized("NFKC", normalized("NFKC", address).lower())
    if not address.isprintable() or not _EMAIL.fullmatch(address):
        raise InvalidInput(_NO_EMAIL, field="email")
    return address


def check_email(address: str) -> str:
    """Return the normalized form of an email address that a member may have. Raises `InvalidInput` for any other address.

    The local part must be a dot-atom (RFC 5322, 3.2.3) without `!`, `%` and `|`, by which mail servers route to other addresses or
    programs, and without `?`, as in encoded words. Only the syntax is checked.
    """
    address = normalized_email(address)
    if len(address) > MAX_EMAIL or not _STRICT_EMAIL.fullmatch(address):
        raise InvalidInput(_NO_EMAIL, field="email")
    return address


def plain_excerpt(text: str, limit: int) -> str:
    """Return the first line of a text as a title: at most `limit` characters, cut after a word and with an ellipsis if longer."""
    line = text.strip().partition("\n")[0].rstrip()
    if len(line) <= limit:
        return line
    head = line[: limit - 1]
    if not line[limit - 1].isspace():
        # If there is no space, the line is one long word or has a script without spaces: cut it anywhere.
        head = head.rpartition(" ")[0] or head
    return head.rstrip() + "…"


def _too_long(actual: int, field: str, maximum: int) -> TooLarge:
    return TooLarge(f"{field} has {actual} characters; the maximum is {maximum}", field=field)


def _leading_tag(run: str) -> str:
    """Return the tag at the start of `run`, which contains only tag characters and non-ASCII characters; "" if there is none."""
    if run.isascii():
        return "" if len(run) > MAX_TAG or run.isdigit() else run
    # Read only one character more than the maximum: that shows whether the tag is too long, however long the run is.
    if len(name := _tag_characters(run[: MAX_TAG + 1])) > MAX_TAG:
        return ""
    name = name.rstrip(_SEPARATORS)
    return name if _is_tag(name) else ""


def _tag_characters(run: str) -> str:
    """Return the longest prefix of `run` that consists of letters, marks, decimal digits, connectors and separators."""
    if run.isalpha():
        return run
    for at, character in enumerate(run):
        # Stop at a leading mark, because it belongs to the `#`, as in the keycap emoji.
        if not (_kind(character) in "LNP" or (at and _may_follow(run[at - 1], character))):
            return run[:at]
    return run


def _may_follow(before: str, character: str) -> bool:
    # Allow a zero-width joiner only after a virama. Elsewhere it is invisible, so that two different tags could look alike.
    if character == _JOINER:
        return combining(before) == _VIRAMA
    return character in _SEPARATORS or _kind(character) == "M"


def _kind(character: str) -> str:
    """Classify a character: L letter, M mark, N decimal digit, P connector (such as the underscore), - for any other."""
    found = category(character)
    return found[0] if found[0] in "LM" or found in ("Nd", "Pc") else "-"


def _is_tag(name: str) -> bool:
    """Return whether these characters form a tag: they need a letter or connector, and a valid canonical form."""
    if _has_many_marks(name) or not any(_kind(character) in "LP" for character in name):
        return False
    if len(name) * _FOLDED_LENGTH <= MAX_TAG and is_normalized("NFKC", name):
        return True
    # Check the canonical form, because folding may make the tag too long, and some letters expand to several characters, even
    # spaces (U+FDFA), which no URL can contain.
    canonical = canonical_tag(name)
    return canonical != "" and canonical == _tag_characters(canonical).rstrip(_SEPARATORS)


LINK_SHOWN = 30
"""Number of characters of a link that are displayed, after its scheme."""

_BLANK_LINES = re.compile(r"\n{2,}")


def to_html(text: str, *, mentions: Mapping[str, str], tag_url: Callable[[str], str], domain: str = "") -> str:
    """Return a text as safe HTML; "" for an empty text.

    `mentions` maps lower-case user names to account URLs. A mention stays plain text if its name is missing there, or if it has a
    domain other than `domain`, this server's own. `tag_url` is called with a canonical tag. All URLs must be http(s) addresses.
    """
    text = text.strip("\n")
    if not text:
        return ""
    pieces = ["<p>"]
    at = 0
    for span in parse(text):
        markup = _markup(text, span, mentions, tag_url, domain)
        if markup:
            pieces += (_plain(text[at : span.start]), markup)
            at = span.end
    pieces += (_plain(text[at:]), "</p>")
    return "".join(pieces)


def _plain(text: str) -> str:
    html = escape(text)
    if "\n" not in html:
        return html
    return _BLANK_LINES.sub("</p><p>", html).replace("\n", "<br />")


def _markup(text: str, span: Span, mentions: Mapping[str, str], tag_url: Callable[[str], str], domain: str) -> str:
    """Return the HTML of a span of text; "" for a mention that does not name a local account."""
    if span.kind == "link":
        return _link(span.value)
    typed = text[span.start + 1 : span.end]
    if span.kind == "tag":
        return f'<a href="{escape(tag_url(span.value))}" class="mention hashtag" rel="tag">#<span>{escape(typed)}</span></a>'
    url = mentions.get(span.value) if span.domain in ("", domain.lower()) else None
    if not url:
        return ""
    link = f'<a href="{escape(url)}" class="u-url mention">@<span>{escape(typed)}</span></a>'
    return f'<span class="h-card" translate="no">{link}</span>'


def _link(url: str) -> str:
    scheme = url.index("://") + 3
    cut = scheme + LINK_SHOWN
    shown_as = "ellipsis" if len(url) > cut else ""
    return (
        f'<a href="{escape(url)}" target="_blank" rel="nofollow noopener" translate="no">'
        f'<span class="invisible">{url[:scheme]}</span>'
        f'<span class="{shown_as}">{escape(url[scheme:cut])}</span>'
        f'<span class="invisible">{escape(url[cut:])}</span></a>'
    )
