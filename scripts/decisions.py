"""Write the index of docs/decisions: `python -m scripts.decisions`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "decisions"
INDEX = FOLDER / "README.md"
MOST = 80
"""Maximum number of decisions, which a maintainer can read. Beyond it, merge decisions, or delete those that no longer matter."""
SECTIONS = (("Context",), ("Decision",), ("Consequences", "Figures"))
"""Groups of headings. A record must have at least one heading of each group."""
TOPICS = {
    1: "Placement, graph and processes",
    21: "Timelines, feeds, tags and search",
    41: "HTTP, client API, web app, library and log-ins",
    61: "Moderation, media, operations and benchmarks",
}
"""Topics by the first number of their range."""

_HEAD = """# Decisions

Architecture decision records, by topic: the context, the decision, its consequences and the figures behind it. A measurement that
contradicts a record changes the code and the record. The status of a superseded record names its successor. To add a record, take
the next free number of its topic, use the sections *Context*, *Decision*, *Consequences* and *Figures*, and run
`python -m scripts.decisions`.

[Dependencies](dependencies.md) lists the packages that Shoal uses, with the reason for each.
"""


class Record(NamedTuple):
    number: int
    title: str
    status: str
    path: Path


def records() -> list[Record]:
    return sorted(map(_record, FOLDER.glob("[0-9]*.md")))


def _record(path: Path) -> Record:
    text = path.read_text("utf-8")
    head = re.match(r"# (\d+)\. (.+)\n\nDate: \d{4}-\d\d-\d\d\. Status: ([^\n]+?)\.?\n", text)
    if head is None or int(head[1]) != int(path.name[:4]):
        raise ValueError(
            f"{path.name}: begin with '# {int(path.name[:4])}. Title' and 'Date: YYYY-MM-DD. Status: accepted.'"
        )
    for names in SECTIONS:
        if not any(f"\n## {name}\n" in text for name in names):
            raise ValueError(f"{path.name}: the section {' or '.join(names)} is missing")
    return Record(int(head[1]), head[2], head[3], path)


def index() -> str:
    return _HEAD + "".join(_lines())


def _lines() -> Iterator[str]:
    starts = sorted(TOPICS)
    topic = 0
    for record in records():
        start = max(start for start in starts if start <= record.number)
        if start != topic:
            topic = start
            yield f"\n## {TOPICS[start]}\n\n"
        status = "" if record.status == "accepted" else f" ({record.status})"
        yield f"- [{record.number}. {record.title}]({record.path.name}){status}\n"


if __name__ == "__main__":
    INDEX.write_text(index(), "utf-8")
