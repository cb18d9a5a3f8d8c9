"""The table of routes in `docs/api.md`, as the route table has it. `python -m tests.api_page` writes it there."""

from __future__ import annotations

from pathlib import Path

from shoal.core.model import Role
from shoal.http.routes import Route
from shoal.mastodon_api.routes import table
from shoal.settings import Settings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"

_HEAD = "| method | path | who | scope | limit | state | what |\n|---|---|---|---|---|---|---|\n"
_WHO = {
    "public": "anybody",
    "optional": "anybody; more for a member",
    "app": "an app",
    "client": "an app by itself",
    "user": "a member",
}


def row(route: Route) -> str:
    """One line of the table."""
    scope = f"`{route.scope}`" if route.scope else ""
    cells = (
        route.method,
        f"`{route.path}`",
        _who(route),
        scope,
        route.limit_class,
        "stub" if route.stub else "done",
        route.summary.replace("|", "\\|"),
    )
    return "".join(f"| {cell} " for cell in cells) + "|"


def _who(route: Route) -> str:
    return {Role.NONE: _WHO[route.auth], Role.MODERATOR: "a moderator", Role.ADMIN: "an admin"}[route.role]


def rows() -> list[str]:
    """Every line of the table."""
    return [row(route) for route in table(Settings())]


def main() -> None:
    """Write the table into the page."""
    before, _, rest = PAGE.read_text().partition(_HEAD)
    after = rest[rest.index("\n\n") :] if "\n\n" in rest else ""
    PAGE.write_text(before + _HEAD + "\n".join(rows()) + after)


if __name__ == "__main__":
    main()
