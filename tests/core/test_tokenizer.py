"""The tokenizer: the words that a text is indexed under, and the clause that a query becomes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.tokenizer import MAX_REPEATS, MAX_WORD, Clause, clause_of, fold, words_of
from shoal.search.contract import says


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  ...!", []),
        ("Low tide, at_dawn", ["low", "tide", "at", "dawn"]),
        ("#Café @ann https://x.org", ["cafe", "ann", "https", "x", "org"]),
        ("Straße ＦＵＬＬ ﬁne", ["strasse", "full", "fine"]),
        ("日本語", ["日本", "本語", "語"]),
        ("海", ["海"]),
        ("iPhone用ケース", ["iphone", "用ケ", "ケー", "ース", "ス"]),
        ("ガラス ｶﾞﾗｽ", ["ガラ", "ラス", "ス", "ガラ", "ラス", "ス"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("בְּרֵאשִׁית", ["בראשית"]),
        ("Ёлка и йод", ["елка", "и", "иод"]),
        ("Łódź smørrebrød Đà Nẵng ħobża œuvre Æsir", ["lodz", "smorrebrod", "da", "nang", "hobza", "oeuvre", "aesir"]),
        ("Ŧ ŋ þorn ƀ ǿ ǽ ɨ ƒ ıŞIK İstanbul ð", ["t", "n", "thorn", "b", "o", "ae", "i", "f", "isik", "istanbul", "d"]),
        ("so 🌅🌅 👍🏽", ["so", "🌅", "🌅", "👍", "🏽"]),
        ("don't", ["don", "t"]),
    ],
)
def test_tokenizer_splits_text_into_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("", None),
        ("-", None),
        ("Tide", Clause(("tide",))),
        ("12:30", Clause(("12", "30"))),
        ("日本語", Clause(("日本", "本語"))),
        ("語", Clause(("語",), open=True)),
        ("a語", Clause(("a", "語"), open=True)),
        ("語a", Clause(("語", "a"))),
        ("日語a", Clause(("日語", "語", "a"))),
    ],
)
def test_search_query_of_text_is_sequence_of_its_words(text: str, clause: Clause | None) -> None:
    assert clause_of(text) == clause


def test_tokenizer_truncates_long_words_and_caps_repeats() -> None:
    assert words_of("é" * 500) == ["e" * MAX_WORD]
    assert words_of("ha " * 1_000) == ["ha"] * MAX_REPEATS


@given(st.text(), st.text(alphabet="ab 日本語ö_-", max_size=12), st.text())
def test_search_for_words_finds_them_between_other_words(before: str, part: str, after: str) -> None:
    clause = clause_of(part)
    assert clause is None or says(words_of(f"{before[:40]} {part} {after[:40]}"), clause)


@given(st.text(alphabet="日本語海辺の", min_size=1, max_size=20), st.data())
def test_search_for_any_part_of_cjk_text_finds_text(text: str, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(begin + 1, len(text)))
    clause = clause_of(text[begin:end])
    assert clause is not None
    assert says(words_of(text), clause)


@given(st.text())
def test_tokenizer_words_contain_no_index_syntax(text: str) -> None:
    for word in words_of(text):
        assert not set(word) & set(" \t\n:'\"\\()*&|!<>\0")
        assert words_of(word)


@given(st.text())
def test_tokenizer_folding_does_not_change_words(text: str) -> None:
    assert words_of(fold(text)) == words_of(text)


def test_tokenizer_reads_nine_thousand_hostile_characters_within_two_seconds() -> None:
    began = time.process_time()
    for text in ("\u0301" * 9_000, "a\u0327\u0301" * 3_000, "日" * 9_000, ":" * 9_000, "🌅" * 9_000):
        words_of(text)
        clause_of(text)
    assert time.process_time() - began < 2
