"""Check the English of the repository: `python -m scripts.prose` fails `make check` on a violation, `--list` shows every phrase.

It counts phrases of translated English (docs/style.md) per 1,000 words of each kind of text and compares the rate with a budget.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from babel.messages.pofile import read_po

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "python -m scripts.prose"

PHRASES = re.compile(
    r"\b(what is|what was|what are|the same|nobody|somebody|everybody|whoever|another's|of one|those that|those who|those of"
    r"|who has|beside|stands?|stood|goes on|go on|for good|told|tells|so many|so much|anew|by chance|a share of|meanwhile|is wanted"
    r"|comes along|taken in|takes in|in the fewest words|at a desk|lets? in|let in|says so|said so|in words|puts? right|of its own"
    r"|of their own|of one's own|oneself|one's|whichever|wherever|thereby|therein)\b",
    re.IGNORECASE,
)
"""Phrases that a native-speaking engineer rarely writes. Most have legitimate uses, which the budget allows."""

BUDGETS = {
    "docstrings": 2.0,
    "comments": 2.0,
    "tests": 24.0,
    "documentation": 4.0,
    "decisions": 2.0,
    "README": 2.0,
    "interface": 2.0,
    "messages": 9.0,
}
"""Highest accepted number of phrases per 1,000 words. The goal is 2 for every kind; a budget above that only goes down."""

_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_CODE = re.compile(r"```[\s\S]*?```|^ {4,}\S.*$|`[^`\n]*`|\]\([^)]*\)|<[^>]+>|https?://\S+", re.MULTILINE)
"""Code blocks, inline code, link targets and tags of a page."""
_LOGGERS = frozenset({"debug", "info", "warning", "error", "exception", "echo", "UsageError", "ClickException"})


class Text(NamedTuple):
    """A piece of English and its location."""

    kind: str
    path: Path
    line: int
    text: str


def texts() -> Iterator[Text]:
    """Yield all English of the repository."""
    for folder in ("src", "scripts", "benchmarks", "examples", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "node_modules" not in path.parts and path.name != "_generated.py":
                yield from of_module(path, "tests" if folder == "tests" else "")
    for path in sorted((ROOT / "docs").rglob("*.md")):
        yield from of_page(path, "decisions" if path.parent.name == "decisions" else "documentation")
    yield from of_page(ROOT / "README.md", "README")
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "deploy/README.md"):
        if (ROOT / name).exists():
            yield from of_page(ROOT / name, "documentation")
    catalogue = ROOT / "src" / "shoal" / "locales" / "de" / "LC_MESSAGES" / "shoal.po"
    with catalogue.open("rb") as file:
        for message in read_po(file):
            for text in (message.id,) if isinstance(message.id, str) else message.id:
                if text:
                    yield Text("interface", catalogue, message.lineno or 0, text)


def of_page(path: Path, kind: str) -> Iterator[Text]:
    """Yield the lines of a Markdown page, without code."""
    page = path.read_text("utf-8")
    prose = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), page)
    for number, line in enumerate(prose.splitlines(), 1):
        if not line.startswith(">"):
            yield Text(kind, path, number, line)


def of_module(path: Path, kind: str = "") -> Iterator[Text]:
    """Yield docstrings, comments, errors, log lines and help texts of a module, or all as one `kind`."""
    source = path.read_text("utf-8")
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield Text(kind or "docstrings", path, node.lineno, _without_code(node.value.value))
        elif not kind and isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from _strings(path, node.exc)
        elif not kind and isinstance(node, ast.Call) and _name(node.func) in _LOGGERS:
            yield from _strings(path, node)
        elif not kind and isinstance(node, ast.keyword) and node.arg == "help":
            yield from _strings(path, node.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"# (type:|noqa|pragma)", token.string):
            yield Text(kind or "comments", path, token.start[0], _without_code(token.string))


def _strings(path: Path, node: ast.AST) -> Iterator[Text]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and " " in part.value:
            yield Text("messages", path, part.lineno, part.value)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _without_code(text: str) -> str:
    return re.sub(r"`[^`]*`", " ", text)


def phrases_in(text: Text) -> Iterator[str]:
    """Yield each phrase with its file and line."""
    for match in PHRASES.finditer(text.text):
        line = text.line + text.text.count("\n", 0, match.start())
        yield f"{text.path.relative_to(ROOT)}:{line}: {match[0]}"


def main() -> None:
    """Print the rate of each kind of text; exit with 1 if one exceeds its budget."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--list", nargs="?", const="", metavar="TEXT", help="list phrases, of paths with this text only"
    )
    chosen = options.parse_args()
    words: Counter[str] = Counter()
    found: defaultdict[str, list[str]] = defaultdict(list)
    for text in texts():
        words[text.kind] += len(_WORD.findall(text.text))
        found[text.kind] += phrases_in(text)
    over = False
    for kind, budget in BUDGETS.items():
        rate = 1_000 * len(found[kind]) / max(words[kind], 1)
        over |= rate > budget
        verdict = "exceeds its budget of" if rate > budget else "within"
        print(
            f"prose: {kind}: {rate:.2f} phrases per 1,000 words ({len(found[kind])} in {words[kind]:,}), {verdict} {budget:g}"
        )
        if chosen.list is not None:
            print(*[f"  {place}" for place in found[kind] if chosen.list in place], sep="\n")
    sys.exit(int(over))


if __name__ == "__main__":
    main()
