"""Generates `docs/reference/events.md` from the types of events: `python -m tests.events_page`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import inspect

from shoal.http.openapi import taken
from shoal.queries.events import TYPES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "events.md"

_HEAD = """# Events

This page lists the types of events, and the fields of their `data`. [Follow events](../howto/events.md) explains how to receive
them. The JSON Schema of a type is at `/api/shoal/v1/events/schemas/TYPE`. Fields may be added.
"""


def text() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *_types(), *_sections()])


def _types() -> Iterator[str]:
    yield "| type | data | scope in addition to `server:events` |\n|---|---|---|"
    for name, kind in TYPES.items():
        title = _title(kind.data.__name__)
        yield f"| `{name}` | [{title}](#{title.lower()}) | {f'`{kind.needs}`' if kind.needs else ''} |"


def _sections() -> Iterator[str]:
    for data in dict.fromkeys(kind.data for kind in TYPES.values()):
        schema = taken(inspect.type_info(data))
        yield f"\n## {_title(data.__name__)}\n\n{schema['description']}\n\n| field | type | description |\n|---|---|---|"
        yield from _rows(schema, "")


def _rows(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, field in schema["properties"].items():
        described = field.get("description", "").replace("|", "\\|")
        yield f"| `{path}{name}` | {_type(field)} | {described} |"
        inner = field.get("items", next(iter(field.get("anyOf", [])), field))
        if "properties" in inner:
            yield from _rows(inner, f"{path}{name}{'[]' if 'items' in field else ''}.")


def _type(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"]) if len(field["enum"]) <= 4 else "string"
    if "anyOf" in field:
        return " or ".join(map(_type, field["anyOf"]))
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}s"
    kind = field.get("type", "any value")
    return kind if isinstance(kind, str) else " or ".join(kind)


def _title(name: str) -> str:
    return re.sub("Data$", "", name)


def main() -> None:
    """Write the page."""
    PAGE.write_text(text() + "\n")


if __name__ == "__main__":
    main()
