"""Text and JSON log formats: the content of an entry cannot start another entry."""

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
    """Return whether the text has no control characters, line breaks or direction overrides."""
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
def test_text_log_entry_with_any_message_is_one_line(text: str) -> None:
    line = TextFormat().format(entry(text))
    assert is_harmless(line)
    assert line.encode()
    assert BEGINNING.match(line)


@given(texts)
@example(FORGED)
@example("\u2028\x7f\x85\ufeff")
def test_json_log_entry_is_one_line_and_preserves_message(text: str) -> None:
    line = JsonFormat().format(entry(text))
    assert is_harmless(line)
    told = json.loads(line)
    assert told["message"] == text.encode("utf-8", "backslashreplace").decode()
    assert (told["level"], told["logger"]) == ("error", "shoal.part")


def test_log_traceback_with_forged_entry_is_prefixed_and_escaped() -> None:
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


def test_json_log_entry_during_request_contains_request_and_trace_ids() -> None:
    trace = parse(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    token = begin_recording(Record("abc", "GET", None, trace))
    try:
        told = json.loads(JsonFormat().format(entry("x")))
    finally:
        end_recording(token)
    assert (told["id"], told["trace"]) == ("abc", "0af7651916cd43dd8448eb211c80319c")
    assert "id" not in json.loads(JsonFormat().format(entry("x")))


def test_request_log_json_line_is_parsed_back_into_entry() -> None:
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
def test_request_log_reader_returns_none_for_lines_that_are_no_request_entries(line: bytes) -> None:
    assert read_entry(line) is None


def test_log_escaping_leaves_printable_text_unchanged() -> None:
    assert one_line("Grüße an 村上 🐟 \\n") == "Grüße an 村上 🐟 \\n"
    assert one_line("a\nb\u202e") == "a\\nb\\u202e"
