"""The text of an imported post: its title, its description, and its tags as `#tags`, within the limit."""

from __future__ import annotations

import re
from typing import NamedTuple

from shoal.core.errors import InvalidInput
from shoal.core.text import as_text, check_tag, text_length, with_line_ends
from shoal.ops.transfer.records import PostRecord

_PIECES = re.compile(r"\s+|\S+")


class Wording(NamedTuple):
    """A text, the tags that it could not take with the reason, and what was done to it."""

    text: str
    refused_tags: list[tuple[str, str]]
    tags: int
    cut: bool
    cleaned: bool


def worded(record: PostRecord, limit: int) -> Wording:
    """The text of a record, at most `limit` characters as posts count them. Tags stay whole; the words before them are cut."""
    typed = "\n\n".join(part for part in (record.title.strip(), record.text.strip()) if part)
    ended = with_line_ends(typed)
    body = as_text(ended)
    tags, refused = _tags(record.tags, limit // 2)
    room = limit - len(tags) - 2 if tags else limit
    kept = cut(body, room)
    text = "\n\n".join(part for part in (kept, tags) if part)
    return Wording(text, refused, len(record.tags) - len(refused), kept != body, body != ended)


def _tags(names: tuple[str, ...], room: int) -> tuple[str, list[tuple[str, str]]]:
    taken: dict[str, str] = {}
    refused: list[tuple[str, str]] = []
    for name in names:
        try:
            canonical = check_tag(name)
        except InvalidInput as error:
            refused.append((name, str(error)))
            continue
        if sum(map(len, taken.values())) + 2 * len(taken) + len(name) + 2 > room:
            refused.append((name, "half of the post is tags already"))
        else:
            taken.setdefault(canonical, name.removeprefix("#"))
    return " ".join(f"#{name}" for name in taken.values()), refused


def cut(text: str, limit: int) -> str:
    """The text if it fits, else as many whole words of it as do, and an ellipsis."""
    if text_length(text) <= limit:
        return text
    # No link, mention or tag contains a space, so the length of a text is the sum over its words and spaces.
    room, end = limit - 1, 0
    for piece in _PIECES.finditer(text):
        room -= text_length(piece[0])
        if room < 0:
            break
        end = piece.end()
    if head := text[:end].rstrip():
        return head + "…"
    head = text.lstrip()[: limit - 1]
    # A link may count for more than it is long.
    while head and (over := text_length(head) + 1 - limit) > 0:
        head = head[:-over]
    return head + "…"
