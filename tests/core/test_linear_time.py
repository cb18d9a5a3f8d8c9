"""Every function that parses text runs in time linear in the length of the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import pytest
from msgspec.structs import replace

from shoal.admin.imports.records import cut
from shoal.core.blocklists import check_domain
from shoal.core.email import hash_address
from shoal.core.emoji import checked_emoji
from shoal.core.filters import Filter, FilterKeyword, Text, compiled
from shoal.core.handles import handles_in, read_handle
from shoal.core.moderation_rules import CompiledRules, Conditions, DomainIndex, PhraseIndex, Rule, RuleState
from shoal.core.publishing import Candidate
from shoal.core.text import (
    addressed,
    as_text,
    canonical_tag,
    check_email,
    check_tag,
    check_text,
    check_user_name,
    mentions_of,
    parse,
    plain_excerpt,
    tags_of,
    text_length,
    to_html,
    unaddressed,
)
from shoal.core.tokenizer import clause_of, fold, words_of
from shoal.i18n import words_in
from shoal.mastodon_api.tag_cloud_image import extent, shown
from shoal.search.contract import says
from shoal.search.query import misread, read_question
from shoal.web.form_errors import complaint
from shoal.web.revisions import difference
from tests.linear_time import UNITS, assert_linear

FILTER = compiled(
    Filter(
        id=1,
        owner_id=1,
        title="",
        keywords=tuple(FilterKeyword(n, word) for n, word in enumerate(("a" * 100, "-a", "a.", "\u0301\u0327", "#"))),
    )
)


def _all_in(text: str) -> bool:
    clause = clause_of(text)
    return clause is not None and says(words_of(text * 2), clause)


DOMAINS, PHRASES = DomainIndex(), PhraseIndex()
DOMAINS.add("example.org", 0)
PHRASES.add("a a a b", 0)
CANDIDATE = Candidate(kind="post", member_id=1, member_name="ann", member_created_at=0.0, member_posts=0, text="")
RULES = CompiledRules(
    [
        Rule(
            id=1,
            name="Rule",
            action="hold",
            state=RuleState.ARMED,
            conditions=Conditions(words=("a a b",), domains=("example.org",), more_links_than=1),
        )
    ]
)


def as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


READERS: Mapping[str, Callable[[str], object]] = {
    "check_text refusing": lambda text: check_text(text, field="note", maximum=len(text) // 4),
    "check_text": lambda text: check_text(text, field="note", maximum=len(text)),
    "check_text of a post": lambda text: check_text(text, field="status", maximum=len(text), length=text_length),
    "text_length": text_length,
    "as_text": as_text,
    "cut": lambda text: cut(text, 500),
    "cut in the second word": lambda text: cut(f"{text} {text}", len(text) * 3 // 2),
    "parse": parse,
    "tags_of": tags_of,
    "mentions_of": mentions_of,
    "to_html": lambda text: to_html(text, mentions={"ann": "https://a.example/@ann"}, tag_url=str),
    "plain_excerpt": lambda text: plain_excerpt(text, len(text) // 2),
    "canonical_tag": canonical_tag,
    "check_tag": check_tag,
    "check_user_name": check_user_name,
    "check_email": lambda text: check_email(f"{text}@example.org"),
    "check_email of a domain": lambda text: check_email(f"a@{text}"),
    "check_domain": check_domain,
    "hash_address": lambda text: hash_address("00", text),
    "checked_emoji": checked_emoji,
    "read_handle": read_handle,
    "handles_in": lambda text: list(handles_in(text)),
    "fold": fold,
    "words_of": words_of,
    "clause_of": clause_of,
    "says": _all_in,
    "read_question": read_question,
    "misread": misread,
    "filters": lambda text: FILTER.keywords_in(Text((text,))),
    "filters with a keyword": lambda text: compiled(
        Filter(id=1, owner_id=1, title="", keywords=(FilterKeyword(1, text),))
    ).keywords_in(Text((text * 2,))),
    "unaddressed": lambda text: unaddressed(text, {"ann", "a"}),
    "addressed": lambda text: addressed(text, ["ann", "a"]),
    "difference": lambda text: difference(text, text[::-1]),
    "domains of links": lambda text: DOMAINS.owners(
        [f"https://{text}", *(f"https://{word}" for word in text.split(" "))]
    ),
    "phrases": PHRASES.owners,
    "rules": lambda text: RULES.matching(replace(CANDIDATE, data=as_json([text, {text: f"https://{text}"}])), 0.0),
    "complaint": lambda text: complaint(words_in("de"), text),
    "size of a word": lambda text: extent(shown(text)),
    "size of a long word": extent,
}


@pytest.mark.parametrize("reader", READERS)
def test_text_parser_runs_in_time_linear_in_input_length(reader: str) -> None:
    for unit in UNITS:
        assert_linear(READERS[reader], unit)
