"""The log of the process, as text or JSON. Each entry begins a line, and nothing that somebody sent can begin another.

Control characters, separators of lines and marks that turn the direction of text are escaped. A traceback has lines of its own
in text, each behind a bar; in JSON it is a field.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import Any, Literal

import msgspec

from shoal.tracing.entries import AnyEntry, LoggedJob, LoggedRequest, moment
from shoal.tracing.record import recording

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
LogFormat = Literal["text", "json"]


def one_line(text: str) -> str:
    """Return the text without characters that end a line, move the cursor or turn the direction: `\\n`, `\\u202e`."""
    return _UNSAFE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _in_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class TextFormat(logging.Formatter):
    """Lines for people: moment, severity, part, and what happened."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the entry; a traceback follows it in lines that begin with a bar."""
        record.message = one_line(record.getMessage())
        record.asctime = self.formatTime(record)
        lines = [self.formatMessage(record)]
        if record.exc_info:
            lines += self.formatException(record.exc_info).split("\n")
        return "\n| ".join([lines[0], *map(one_line, lines[1:])])


class JsonFormat(logging.Formatter):
    """One JSON object a line. An entry of the request log has its own fields; others say in which request they were made."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the entry."""
        entry: Any = record.msg if isinstance(record.msg, LoggedRequest | LoggedJob) else None
        fields: dict[str, object] = {
            "time": moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _encodable(record.getMessage() if entry is None else entry.summary),
        }
        if entry is not None:
            fields |= msgspec.to_builtins(entry)
        elif (under_way := recording()) is not None:
            fields["id"] = under_way.id
            if under_way.trace is not None:
                fields["trace"] = under_way.trace.trace_id.hex()
        if record.exc_info:
            fields["error"] = _encodable(self.formatException(record.exc_info))
        return _UNSAFE.sub(_in_json, msgspec.json.encode(fields).decode())


def log_to_stderr(level: str, format_: LogFormat) -> None:
    """Write the log of this process to standard error.

    Below WARNING, libraries log requests, headers and frames as they are on the wire, credentials included. The level
    therefore applies to the loggers of Shoal, and libraries log warnings and errors only.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormat() if format_ == "json" else TextFormat())
    lowest = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(lowest, logging.WARNING), handlers=[handler])
    logging.getLogger("shoal").setLevel(lowest)


def read_entry(line: bytes) -> AnyEntry | None:
    """Return the request or job that a line of a JSON log tells of; None for any other line."""
    try:
        return _entry.decode(line)
    except msgspec.MsgspecError:
        return None


_entry: msgspec.json.Decoder[AnyEntry] = msgspec.json.Decoder(AnyEntry)


def _encodable(text: str) -> str:
    """Return the text without halves of characters, which JSON cannot have."""
    return text.encode("utf-8", "backslashreplace").decode()
