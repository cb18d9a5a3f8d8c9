"""Moderation rules: conditions, normalization, states, and the cost of checking a text."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shoal.core.errors import InvalidInput, Unfit
from shoal.core.moderation_rules import (
    DAY_MS,
    DAY_SECONDS,
    MAX_RULES,
    MAX_WORDS,
    CompiledRules,
    Conditions,
    DryRun,
    PictureIndex,
    Rule,
    RuleDraft,
    RuleState,
    StoredRules,
    changed,
    decision,
    with_state,
)
from shoal.core.publishing import ALLOW, Candidate, MediaFacts
from shoal.core.text import parse
from tests.linear_time import UNITS, assert_linear

NOW = 2_000_000_000.0
COFFEE, SEA = "LEHV6nWB2yk8pyo0adR*.7kCMdnj", "LGF5]+Yk^6#M@-5c,1J5@[or[Q6."


def rule(id_: int = 1, *, state: RuleState = RuleState.ARMED, **values: Any) -> Rule:
    names = {*Conditions.__struct_fields__}
    conditions = Conditions(**{name: value for name, value in values.items() if name in names})
    others = {name: value for name, value in values.items() if name not in names}
    return Rule(id=id_, **{"name": "r", "action": "hold", "conditions": conditions, "state": state, **others})


def candidate(text: str = "", **values: Any) -> Candidate:
    links = tuple(span.value for span in parse(text) if span.kind == "link")
    given = {"kind": "post", "member_id": 1, "member_name": "ann", "member_created_at": 0.0, "member_posts": 500}
    return Candidate(**{**given, "text": text, "links": links, **values})


def matches(rule_: Rule, content: Candidate, removed: tuple[str, ...] = ()) -> bool:
    return bool(CompiledRules([rule_], removed).matching(content, NOW))


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("viagra", "Buy VIAGRA now"),
        ("viagra", "#viagra"),
        ("viagra", "vi\u200bag\u00adra"),
        ("viagra", "ｖｉａｇｒａ"),
        ("cafe noir", "un CAFÉ — noir!"),
        ("straße", "STRASSE"),
        ("日本語", "私は日本語を話す"),
        ("語", "日本語"),
        ("istanbul", "İSTANBUL"),
    ],
)
def test_phrase_in_another_spelling_matches(phrase: str, text: str) -> None:
    assert matches(rule(words=(phrase,)), candidate(text))


_UNSEEN = (
    "\ufeff\u2061\u2064\u180b\u180e\u115f\u3164\uffa0\u17b4"
    "\u061c\u202a\u2066\u206a\ufff9\u200b\u00ad\U000e0020\U000e0100\U0001d173"
)


@pytest.mark.parametrize("between", [*_UNSEEN, *"\u0301\u0338\u1ab0\u1dc4\u20d0\ufe20"])
def test_phrase_with_invisible_characters_or_accents_matches(between: str) -> None:
    text = f"a free ca{between}si{between}no!"
    assert matches(rule(words=("free casino",)), candidate(text))
    assert matches(rule(words=(f"cas{between}ino",)), candidate("casino"))


@pytest.mark.parametrize("text", ["саsino", "CАSINО", "ᴄasino", "ᴄᴀꜱɪɴᴏ", "cαsinο", "сᴀѕіnо"])
def test_phrase_with_letters_of_another_script_among_latin_ones_matches(text: str) -> None:
    assert matches(rule(words=("casino",)), candidate(f"a {text}!"))
    assert matches(rule(words=(text,)), candidate("casino"))


def test_word_wholly_in_another_script_matches_no_latin_word() -> None:
    assert not matches(rule(words=("cop",)), candidate("сор"))
    assert matches(rule(words=("сор",)), candidate("СОР"))


def test_voiced_kana_are_other_letters_in_both_normalization_forms() -> None:
    assert matches(rule(words=("\u304c",)), candidate("\u304b\u3099"))
    assert not matches(rule(words=("\u304b",)), candidate("\u304b\u3099"))


@pytest.mark.parametrize(
    ("phrase", "text"),
    [("ass", "a classic"), ("cafe noir", "noir cafe"), ("cafe noir", "cafe au noir"), ("本日", "日本"), ("ab", "a b")],
)
def test_phrase_that_is_only_part_of_words_does_not_match(phrase: str, text: str) -> None:
    assert not matches(rule(words=(phrase,)), candidate(text))


@pytest.mark.parametrize(
    "link",
    [
        "https://evil.example/a",
        "http://WWW.EVIL.example:8080",
        "https://evil.example./x",
    ],
)
def test_link_to_domain_or_below_matches(link: str) -> None:
    assert matches(rule(domains=("evil.example",)), candidate(f"see {link} now"))


@pytest.mark.parametrize(
    "host",
    [
        "ev\u00adil.example",
        "ev" + "\u00ad" * 4_000 + "il.example",
        "ev\U000e0100il.example",
        "\U0001d41evil.example",
        "EVIL.EXAMPLE.",
    ],
    ids=["soft hyphen", "many soft hyphens", "variation selector", "bold letter", "capitals"],
)
def test_link_that_browsers_read_as_the_domain_matches(host: str) -> None:
    assert matches(rule(domains=("evil.example",)), candidate(f"https://{host}/"))


def test_link_with_internationalized_domain_matches_its_encoded_form() -> None:
    checked = RuleDraft(name="r", conditions=Conditions(domains=("bücher.example",))).checked()
    assert matches(rule(domains=checked.conditions.domains), candidate("https://BÜCHER.example/"))
    assert matches(rule(domains=checked.conditions.domains), candidate("https://xn--bcher-kva.example/"))


@pytest.mark.parametrize(
    "link", ["https://notevil.example", "https://evil.example.org", "https://a.example/evil.example", "evil.example"]
)
def test_link_to_other_domain_does_not_match(link: str) -> None:
    assert not matches(rule(domains=("evil.example",)), candidate(link))


@pytest.mark.parametrize(("links", "hit"), [(2, False), (3, True)])
def test_rule_on_links_matches_more_than_the_number(links: int, hit: bool) -> None:
    text = " ".join(f"https://a.example/{n}" for n in range(links))
    assert matches(rule(more_links_than=2), candidate(text)) is hit


def test_rule_on_zero_links_matches_any_link() -> None:
    assert matches(rule(more_links_than=0), candidate("https://a.example"))
    assert not matches(rule(more_links_than=0), candidate("no link"))


@pytest.mark.parametrize(
    ("conditions", "days", "posts", "hit"),
    [
        ({"younger_than_days": 7}, 6.9, 999, True),
        ({"younger_than_days": 7}, 7.1, 0, False),
        ({"fewer_posts_than": 5}, 999, 4, True),
        ({"fewer_posts_than": 5}, 0, 5, False),
        ({"younger_than_days": 7, "fewer_posts_than": 5}, 8, 4, True),
        ({"younger_than_days": 7, "fewer_posts_than": 5}, 6, 50, True),
        ({"younger_than_days": 7, "fewer_posts_than": 5}, 8, 5, False),
    ],
)
def test_rule_on_new_members_matches_young_accounts_or_few_posts(
    conditions: dict[str, Any], days: float, posts: int, hit: bool
) -> None:
    content = candidate("hi", member_created_at=NOW - days * DAY_SECONDS, member_posts=posts)
    assert matches(rule(**conditions), content) is hit


@pytest.mark.parametrize(("recent", "hit"), [(4, False), (5, True)])
def test_rule_on_bursts_counts_the_candidate(recent: int, hit: bool) -> None:
    assert matches(rule(more_posts_than=5), candidate("hi", recent_posts=recent)) is hit


def test_rule_on_pictures_matches_look_alike_of_removed_picture_only() -> None:
    def pictured(blurhash: str) -> Candidate:
        return candidate("hi", media=(MediaFacts(id=1, kind="image", blurhash=blurhash),))

    removal = rule(like_removed="same")
    assert matches(removal, pictured(COFFEE), (SEA, COFFEE))
    assert not matches(removal, pictured(COFFEE), (SEA,))
    assert not matches(removal, pictured(""), (SEA, COFFEE))
    assert not matches(removal, pictured(COFFEE))


def test_plain_surface_looks_like_no_removed_picture() -> None:
    plain = "L00000fQfQfQfQfQfQfQfQfQfQfQ"
    assert not PictureIndex((plain,)).has(plain, "similar")


def test_rule_with_several_conditions_needs_all_of_them() -> None:
    combined = rule(words=("crypto",), more_links_than=0, younger_than_days=3)
    young = NOW - DAY_SECONDS
    assert matches(combined, candidate("crypto https://a.example", member_created_at=young))
    assert not matches(combined, candidate("crypto https://a.example"))
    assert not matches(combined, candidate("crypto", member_created_at=young))
    assert not matches(combined, candidate("https://a.example", member_created_at=young))


def test_rule_for_other_kinds_of_content_does_not_match() -> None:
    assert matches(rule(words=("spam",), kinds=("profile",)), candidate("spam", kind="profile"))
    assert not matches(rule(words=("spam",), kinds=("profile",)), candidate("spam"))


def test_decision_takes_the_first_of_the_strictest_armed_rules() -> None:
    held = rule(1, words=("spam",), name="Held")
    first = rule(2, words=("spam",), name="First", action="reject", reason="No spam, please")
    second = rule(3, words=("spam",), name="Second", action="reject", reason="Other")
    found = decision(CompiledRules([held, first, second]).matching(candidate("spam"), NOW))
    assert (found.action, found.reason, found.rule) == ("reject", "No spam, please", "First")
    assert decision(CompiledRules([held]).matching(candidate("spam"), NOW)).reason == "Held"


@pytest.mark.parametrize("state", [RuleState.OFF, RuleState.DRY_RUN])
def test_rule_that_is_not_armed_decides_nothing(state: RuleState) -> None:
    found = CompiledRules([rule(words=("spam",), state=state)]).matching(candidate("spam"), NOW)
    assert decision(found) == ALLOW
    assert bool(found) is (state is RuleState.DRY_RUN)


WORDS = st.lists(st.sampled_from(["spam", "Ham", "EGGS", "été", "日本", "語", "x1"]), max_size=6)
TEXTS = WORDS.map(" ".join)
CONDITIONS = st.builds(
    Conditions,
    words=st.lists(WORDS.filter(bool).map(lambda words: " ".join(words[:2])), max_size=2).map(tuple),
    more_links_than=st.none() | st.integers(0, 3),
    younger_than_days=st.integers(0, 3),
    fewer_posts_than=st.integers(0, 3),
    more_posts_than=st.integers(0, 3),
)
CONTENTS = st.builds(
    lambda text, links, days, posts, recent: candidate(
        text + "".join(f" https://h{n}.example" for n in range(links)),
        member_created_at=NOW - days * DAY_SECONDS,
        member_posts=posts,
        recent_posts=recent,
    ),
    TEXTS,
    *(st.integers(0, 4) for _ in range(4)),
)


def slowly(conditions: Conditions, content: Candidate) -> bool:
    """Check the conditions one by one; words in a naive way."""
    from shoal.core.tokenizer import clause_of, tokens_of  # noqa: PLC0415

    words = tokens_of(content.text)

    def has(phrase: str) -> bool:
        clause = clause_of(phrase)
        assert clause is not None
        wanted = list(clause.words)
        for at in range(len(words) - len(wanted) + 1):
            here = words[at : at + len(wanted)]
            if here[:-1] == wanted[:-1] and (here == wanted or (clause.open and here[-1].startswith(wanted[-1]))):
                return True
        return False

    new = [
        *(
            [NOW - content.member_created_at < conditions.younger_than_days * DAY_SECONDS]
            if conditions.younger_than_days
            else []
        ),
        *([content.member_posts < conditions.fewer_posts_than] if conditions.fewer_posts_than else []),
    ]
    return (
        (not conditions.words or any(map(has, conditions.words)))
        and (conditions.more_links_than is None or len(content.links) > conditions.more_links_than)
        and (not new or any(new))
        and (not conditions.more_posts_than or content.recent_posts + 1 > conditions.more_posts_than)
    )


@given(st.lists(CONDITIONS, max_size=5), CONTENTS)
def test_rules_match_exactly_if_their_conditions_are_met(all_: list[Conditions], content: Candidate) -> None:
    rules = [Rule(id=n, name="r", action="hold", conditions=each, state=RuleState.ARMED) for n, each in enumerate(all_)]
    expected = [each.id for each in rules if slowly(each.conditions, content)]
    assert [each.id for each in CompiledRules(rules).matching(content, NOW)] == expected


@given(st.text(max_size=40).filter(lambda text: bool(text.strip())), st.text(max_size=60))
def test_phrase_matches_regardless_of_case_and_normalization_form(phrase: str, rest: str) -> None:
    from unicodedata import normalize  # noqa: PLC0415

    try:
        checked = RuleDraft(name="r", conditions=Conditions(words=(phrase,))).checked()
    except InvalidInput:
        return
    index = rule(words=checked.conditions.words)
    text = f"{rest} {checked.conditions.words[0]}"
    found = matches(index, candidate(text))
    assert matches(index, candidate(normalize("NFD", text))) == found
    assert matches(index, candidate(normalize("NFC", text))) == found


LARGE = CompiledRules(
    [
        rule(n, words=tuple(f"{'a ' * (word % 40)}w{n}x{word}" for word in range(MAX_WORDS)), domains=("a.example",))
        for n in range(MAX_RULES)
    ]
)


def test_checking_text_takes_linear_time() -> None:
    for unit in UNITS:
        assert_linear(lambda text: LARGE.matching(candidate(text), NOW), unit)


def test_checking_text_with_20000_phrases_takes_milliseconds() -> None:
    content = candidate("one two three a a a " * 250)
    LARGE.matching(content, NOW)
    began = time.process_time()
    for _ in range(10):
        LARGE.matching(content, NOW)
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    ("draft", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"conditions": Conditions()}, "conditions"),
        ({"conditions": Conditions(words=("!!!",))}, "words"),
        ({"conditions": Conditions(words=("x" * 101,))}, "words"),
        ({"conditions": Conditions(words=tuple(f"w{n}" for n in range(MAX_WORDS + 1)))}, "words"),
        ({"conditions": Conditions(domains=("not a domain",))}, "domains"),
        ({"conditions": Conditions(more_links_than=101)}, "more_links_than"),
        ({"conditions": Conditions(younger_than_days=-1)}, "younger_than_days"),
        ({"conditions": Conditions(more_posts_than=101)}, "more_posts_than"),
        ({"action": "reject"}, "reason"),
        ({"action": "delete"}, "action"),
        ({"kinds": ()}, "kinds"),
    ],
)
def test_invalid_rule_is_refused_with_its_field(draft: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        RuleDraft(**{"name": "r", "conditions": Conditions(words=("a",)), **draft}).checked()
    assert caught.value.field == field


def test_rule_without_dry_run_cannot_be_armed() -> None:
    now = int(NOW * 1_000)
    untested = rule(words=("a",), state=RuleState.OFF)
    with pytest.raises(Unfit, match="do a dry run"):
        with_state(untested, RuleState.ARMED, now)
    with pytest.raises(Unfit, match="older than 7 days"):
        with_state(replace(untested, dry_run=DryRun(now - 8 * DAY_MS, 0, 1, 0)), RuleState.ARMED, now)
    tested = replace(untested, dry_run=DryRun(now - 6 * DAY_MS, 0, 1, 0))
    assert with_state(tested, RuleState.ARMED, now).state is RuleState.ARMED
    assert with_state(untested, RuleState.DRY_RUN, now).state is RuleState.DRY_RUN


def test_armed_rule_with_other_conditions_becomes_a_dry_run() -> None:
    armed = replace(rule(words=("a",)), dry_run=DryRun(1, 1, 1, 1))
    renamed = changed(armed, RuleDraft(name="other", conditions=armed.conditions))
    assert (renamed.state, renamed.dry_run) == (RuleState.ARMED, armed.dry_run)
    other = changed(armed, RuleDraft(name="r", conditions=Conditions(words=("b",))))
    assert (other.state, other.dry_run) == (RuleState.DRY_RUN, None)


def test_rules_are_limited_in_number_and_size() -> None:
    rules = StoredRules(id=1)
    for n in range(MAX_RULES):
        rules = rules.with_rule(rule(n + 1, words=("a",)))
    with pytest.raises(Unfit, match="100 moderation rules"):
        rules.with_rule(rule(MAX_RULES + 1, words=("a",)))
    with pytest.raises(Unfit, match="at most 200000 bytes"):
        rules.with_rule(rule(1, words=tuple(f"{n:04}" * 500 for n in range(MAX_WORDS))))
    assert len(msgspec.msgpack.encode(rules)) < 200_000
