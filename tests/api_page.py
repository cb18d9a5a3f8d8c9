"""Generates the table of routes in `docs/api.md` from the route table: `python -m tests.api_page`."""

from __future__ import annotations

from pathlib import Path

from shoal.http.openapi import access_of
from shoal.http.routes import Route
from shoal.mastodon_api.routes import table
from shoal.settings import Settings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"

_HEAD = "| method | path | access | scope | limit | state | description |\n|---|---|---|---|---|---|---|\n"


def row(route: Route) -> str:
    """Return one line of the table."""
    scope = f"`{route.scope}`" if route.scope else ""
    cells = (
        route.method,
        f"`{route.path}`",
        access_of(route),
        scope,
        route.limit_class,
        "stub" if route.stub else "done",
        route.summary.replace("|", "\\|"),
    )
    return "".join(f"| {cell} " for cell in cells) + "|"


def rows() -> list[str]:
    """Return all lines of the table."""
    return [row(route) for route in table(Settings())]


def main() -> None:
    """Write the table into the page."""
    before, _, rest = PAGE.read_text().partition(_HEAD)
    after = rest[rest.index("\n\n") :] if "\n\n" in rest else ""
    PAGE.write_text(before + _HEAD + "\n".join(rows()) + after)


if __name__ == "__main__":
    main()
