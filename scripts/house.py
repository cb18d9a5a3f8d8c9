"""Print what keeps a stranger out of this house; `make check` shows it and does not fail.

Three lists: folders with more modules than one look takes in, class names that mean two things, and docstrings that open with a
word that cannot be understood without what stands before it. What is allowed has its reason here.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

TREES = ("src", "tests", "benchmarks", "examples", "scripts")
MOST_MODULES = 30
OPENING = re.compile(r"(What|Who|Whoever|Of|Those|That|The same)\b")

FOLDERS = {
    "benchmarks": "one program each, found by the name that is typed: `python -m benchmarks.<name>`",
}
"""Folders that may be larger, and why."""

SHOWN = "shoal/api/entities/"
"""An entity has the name of what it shows: Mastodon's clients know a `Poll`, and so does the model."""
TOLD = "shoal/streaming/updates.py"
"""An update has the name of the event that it tells listeners of."""
MADE = "shoal/sync/"
"""A class that is called without `await` has the name of the one it is made from."""

CLASSES = {
    "Writer": "the one writer of a store, SQLite's and PostgreSQL's",
}
"""Names of several classes, and why."""


Parsed = dict[str, ast.Module]
"""Modules by their paths from the root."""


def modules(root: Path) -> Parsed:
    """Parse every module of ours."""
    return {
        path.relative_to(root).as_posix(): ast.parse(path.read_text())
        for tree in TREES
        for path in sorted((root / tree).rglob("*.py"))
        if "node_modules" not in path.parts
    }


def large_folders(parsed: Parsed) -> Iterator[tuple[str, str]]:
    """Yield folders with more modules than fit one look, and how many they have."""
    counts = Counter(path.rpartition("/")[0] for path in parsed)
    for folder, count in counts.items():
        if count > MOST_MODULES:
            yield folder, f"{count} modules"


def shared_names(parsed: Parsed) -> Iterator[tuple[str, str]]:
    """Yield names that several public classes of the package have, and where they stand."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, tree in parsed.items():
        if path.startswith("src/") and not any(place in path for place in (SHOWN, TOLD, MADE)):
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(f"{path}:{node.lineno}")
    for name, places in sorted(found.items()):
        if len(places) > 1:
            yield name, ", ".join(places)


def dependent_openings(parsed: Parsed) -> Iterator[tuple[str, str]]:
    """Yield where docstrings, of attributes too, open with a word that needs another sentence, and their first line."""
    for path, tree in parsed.items():
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            for child in body if isinstance(body, list) else ():
                if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                    text = child.value.value
                    if isinstance(text, str) and OPENING.match(text.strip()):
                        yield f"{path}:{child.lineno}", text.strip().partition("\n")[0]


def main() -> None:
    """Print the three lists; of a long one, its beginning."""
    parsed = modules(Path(__file__).parents[1])
    most = sys.maxsize if "--all" in sys.argv[1:] else 10
    for title, found, allowed in (
        (f"folders with more than {MOST_MODULES} modules", large_folders(parsed), FOLDERS),
        ("class names that mean two things", shared_names(parsed), CLASSES),
        ("docstrings that cannot be read alone", dependent_openings(parsed), {}),
    ):
        lines = [f"  {name}: {more}" for name, more in found if name not in allowed]
        print(f"house: {len(lines) or 'no'} {title}")
        print(*lines[:most], sep="\n", end="\n" if lines else "")
        if len(lines) > most:
            print(f"  and {len(lines) - most} more: python scripts/house.py --all")


if __name__ == "__main__":
    main()
