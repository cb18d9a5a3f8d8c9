"""The text of an imported post: its title, its description, and its tags as `#tags`, within the limit."""

from __future__ import annotations

import re
from typing import NamedTuple

from shoal.core.errors import InvalidInput
from shoal.core.text import as_text, check_tag, text_length, with_line_ends
from shoal.ops.transfer.records import PostRecord

# The lookbehind has each word tried once, from its beginning.
_LAST_WORD = re.compile(r"(?<!\S)\S*+\Z")


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
    size = len(text)
    head = text
    # A link counts for more or less than it is long, so the length is looked at anew.
    while (over := text_length(head) - limit) > 0:
        size -= max(over, 1)
        head = text[: max(0, size - 1)]
        if text[len(head) : len(head) + 1].strip():
            head = _LAST_WORD.sub("", head) if re.search(r"\s", head) else head
        size = len(head) + 1
        head = head.rstrip() + "…"
    return head
