"""The log as text and as JSON: whatever is in an entry, no other one begins in it."""

from __future__ import annotations

import json
import logging
import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shoal.observability.request_log import JsonFormat, TextFormat, one_line, read_entry, request_entry
from shoal.observability.tracing import Record, begin_recording, end_recording, parse

FORGED = "ann\n2026-01-01 00:00:00,000 ERROR shoal: all is lost"
BIDI = "\u202e\u2066\u200f\u061c"
BEGINNING = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ \S+: ")


def entry(message: object, *, error: Exception | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error else None
    return logging.LogRecord("shoal.part", logging.ERROR, "x.py", 1, message, (), info)


def is_harmless(text: str) -> bool:
    """Whether nothing in it moves the cursor, ends a line or turns the direction."""
    return all(
        unicodedata.category(one) not in {"Cc", "Cs", "Zl", "Zp"} and one not in BIDI + "\u202a\u202d\u2069\ufeff"
        for one in text
    )


texts = st.text(st.characters(codec=None), max_size=40) | st.sampled_from(
    [FORGED, BIDI, "\x1b[2J", "\x85", "\u2028", "\ud800"]
)


@given(texts)
@example(FORGED)
@example("\r\nx")
def test_a_text_is_one_line(text: str) -> None:
    line = TextFormat().format(entry(text))
    assert is_harmless(line)
    assert line.encode()
    assert BEGINNING.match(line)


@given(texts)
@example(FORGED)
@example("\u2028\x7f\x85\ufeff")
def test_json_is_one_line_and_says_the_text(text: str) -> None:
    line = JsonFormat().format(entry(text))
    assert is_harmless(line)
    told = json.loads(line)
    assert told["message"] == text.encode("utf-8", "backslashreplace").decode()
    assert (told["level"], told["logger"]) == ("error", "shoal.part")


def test_a_traceback_cannot_pass_for_entries() -> None:
    failed = entry("")
    try:
        int(FORGED + "\x1b[1m" + BIDI)
    except ValueError as error:
        failed = entry("it failed", error=ValueError(FORGED + "\x1b[1m" + BIDI).with_traceback(error.__traceback__))
    first, *others = TextFormat().format(failed).split("\n")
    assert BEGINNING.match(first)
    assert others
    assert all(line.startswith("| ") and is_harmless(line) for line in others)
    told = json.loads(JsonFormat().format(failed))
    assert FORGED in told["error"]


def test_an_entry_that_is_made_in_a_request_names_it_in_json() -> None:
    trace = parse(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    token = begin_recording(Record("abc", "GET", None, trace))
    try:
        told = json.loads(JsonFormat().format(entry("x")))
    finally:
        end_recording(token)
    assert (told["id"], told["trace"]) == ("abc", "0af7651916cd43dd8448eb211c80319c")
    assert "id" not in json.loads(JsonFormat().format(entry("x")))


def test_a_request_is_read_back_from_its_line() -> None:
    record = Record("abc", "GET", None, None)
    record.status, record.complete, record.member = 200, True, 2**62
    record.add("sqlite", "SELECT data FROM object", record.began)
    record.close()
    made = request_entry(record, slow=True)
    line = JsonFormat().format(entry(made))
    assert read_entry(line.encode()) == made
    assert json.loads(line)["message"] == "GET (refused) 200"
    assert f"member={2**62}" in TextFormat().format(entry(made))


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"null", b"2026 INFO x", b'{"kind":"request"}', b'{"kind":"other"}', b"\xff"]
)
def test_other_lines_are_no_requests(line: bytes) -> None:
    assert read_entry(line) is None


def test_a_harmless_text_stays_as_it_is() -> None:
    assert one_line("Grüße an 村上 🐟 \\n") == "Grüße an 村上 🐟 \\n"
    assert one_line("a\nb\u202e") == "a\\nb\\u202e"
