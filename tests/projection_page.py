"""Generates `docs/reference/projection.md` from the tables of `shoal project`: `python -m tests.projection_page`."""

from __future__ import annotations

from pathlib import Path

from shoal_project.tables import SCHEMA_VERSION, SQL_TYPES, TABLES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "projection.md"

_HEAD = f"""# Tables of `shoal project`

This page lists the tables that [`shoal project`](../howto/sql.md) keeps, and their columns. Tables whose names begin with `shoal_`
are internal.

The version of this schema is {SCHEMA_VERSION}, as in the column `schema_version` of `shoal_projection`. It grows when an existing
query may have to change."""

_TYPES = """
## Types

| type | PostgreSQL | SQLite | DuckDB, Parquet |
|---|---|---|---|"""

_TIMES = """
Times in SQLite are texts such as `2026-11-30T07:00:00.000Z`. Those in DuckDB and Parquet have no time zone, and are in UTC."""


def text() -> str:
    """Return the page."""
    lines = [_HEAD]
    for table in TABLES:
        lines += [f"\n## {table.name}\n", f"{table.about} Key: {', '.join(f'`{name}`' for name in table.key)}.\n"]
        lines += ["| column | type | description |", "|---|---|---|"]
        for column in table.columns:
            kind = f"{column.type} or null" if column.optional else column.type
            lines.append(f"| `{column.name}` | {kind} | {column.about} |")
    lines.append(_TYPES)
    lines += [f"| {kind} | {' | '.join(f'`{name}`' for name in names)} |" for kind, names in SQL_TYPES.items()]
    return "\n".join([*lines, _TIMES])


def main() -> None:
    """Write the page."""
    PAGE.write_text(text() + "\n")


if __name__ == "__main__":
    main()
