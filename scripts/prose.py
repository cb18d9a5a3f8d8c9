"""Check the English of the repository: `python -m scripts.prose` fails `make check` on a violation, `--list` shows every phrase.

It counts phrases of translated English (docs/style.md) per 1,000 words of each kind of text and compares the rate with a budget.
It rejects docstrings of fewer than four words, retired words in identifiers, test names that do not begin with a subject, and what
proselint finds in pages and in the texts of the web app.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from babel.messages.pofile import read_po
from proselint.checks import __register__
from proselint.config import DEFAULT
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

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
    "tests": 2.0,
    "documentation": 2.0,
    "decisions": 2.0,
    "README": 2.0,
    "interface": 2.0,
    "messages": 2.0,
}
"""Highest accepted number of phrases per 1,000 words."""

NO_SUBJECT = (
    r"test_(?!two_factor_|one_time_|more_like_)(?:a|all|an|and|another|any(?:body|one|thing)?|are|as|at|be|both|but|by|can(?:not)?"
    r"|each|either|every(?:body|one|thing)?|for|from|her?|here|his|how|if|in|into|is|its?|many|may|more|must|my|neither|never|no"
    r"|nobody|none|not|nothing|of|on|once|one|only|or|others?|our|several|she|so|some(?:body|one|thing)?|still|that|the|their|them"
    r"|then|there|these|they|this|those|three|two|was|were|what(?:ever)?|when|where|whether|which(?:ever)?|while|who(?:ever|m|se)?"
    r"|with(?:out)?|you|your)(?:_|$)"
)
"""Test names that do not begin with a subject. A name must have the form `test_<subject>_<condition>_<result>`."""

RETIRED = frozenset(
    {
        *(
            "anew",
            "aside",
            "audience",
            "audiences",
            "beneath",
            "beside",
            "companions",
            "courier",
            "departures",
            "desk",
            "drawn",
        ),
        *(
            "fading",
            "holdings",
            "loud",
            "owed",
            "postman",
            "resting",
            "rests",
            "room",
            "said",
            "seat",
            "seated",
            "seats",
            "shelf",
        ),
        *(
            "sieve",
            "sight",
            "stamped",
            "stamps",
            "stands",
            "tally",
            "tallies",
            "taste",
            "tastes",
            "thump",
            "told",
            "turns",
            "vitals",
        ),
        *("wanted", "wishes"),
    }
)
"""Words that identifiers must not contain, because terms of the field have replaced them (docs/glossary.md)."""
STORED = frozenset({"said", "set_aside", "events_set_aside", "audience"})
"""Names that contain such words because they are stored or sent, or are terms of a standard (`audience`: RFC 7519)."""
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")
_FEWEST_WORDS = 4

PROSELINT = DEFAULT["checks"] | dict.fromkeys(
    (
        # Shoal writes times as a log does: in UTC, with 24 hours.
        "dates_times",
        # Tables often repeat words.
        "lexical_illusions",
        # Quotation marks and dashes in sources are ASCII.
        "typography",
        # In measurements, "very" and "several" have a meaning.
        "weasel_words",
    ),
    False,
)
"""Checks of proselint, without those that report correct technical text."""
_LINTED = frozenset({"documentation", "decisions", "README", "interface"})

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
    for path in modules():
        yield from of_module(path, "tests" if path.relative_to(ROOT).parts[0] == "tests" else "")
    for path in sorted((ROOT / "docs").rglob("*.md")):
        yield from of_page(path, "decisions" if path.parent.name == "decisions" else "documentation")
    yield from of_page(ROOT / "README.md", "README")
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "deploy/README.md"):
        if (ROOT / name).exists():
            yield from of_page(ROOT / name, "documentation")
    catalog = ROOT / "src" / "shoal" / "locales" / "de" / "LC_MESSAGES" / "shoal.po"
    with catalog.open("rb") as file:
        for message in read_po(file):
            for text in (message.id,) if isinstance(message.id, str) else message.id:
                if text:
                    yield Text("interface", catalog, message.lineno or 0, text)


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
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        text = "".join(map(_part, node.values))
    if " " in text:
        yield Text("messages", path, getattr(node, "lineno", 1), text)
    if not isinstance(node, ast.JoinedStr):
        for child in ast.iter_child_nodes(node):
            yield from _strings(path, child)


def _part(node: ast.expr) -> str:
    """Return the text of a part of an f-string: a value is its name in braces, or `{}` if it has none."""
    if isinstance(node, ast.FormattedValue):
        return f"{{{node.value.id}}}" if isinstance(node.value, ast.Name) else "{}"
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _without_code(text: str) -> str:
    return re.sub(r"`[^`]*`", " ", text)


def phrases_in(text: Text) -> Iterator[str]:
    for match in PHRASES.finditer(text.text):
        line = text.line + text.text.count("\n", 0, match.start())
        yield f"{text.path.relative_to(ROOT)}:{line}: {match[0]}"


def violations(path: Path) -> Iterator[str]:
    """Yield docstrings of fewer than four words, retired identifiers and test names without a subject, with file and line.

    Ruff checks that the docstring of a function begins with a verb.
    """
    source = path.read_text("utf-8")
    at = path.relative_to(ROOT)
    tested = at.parts[0] == "tests"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef) and tested and re.match(NO_SUBJECT, node.name):
            yield f"{at}:{node.lineno}: {node.name} does not begin with its subject"
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef | ast.ClassDef | ast.Module) and not tested:
            text = ast.get_docstring(node)
            if text and len(text.split()) < _FEWEST_WORDS:
                yield f"{at}:{getattr(node, 'lineno', 1)}: the docstring {text!r} has fewer than {_FEWEST_WORDS} words"
    if at.parts[0] != "src":
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string not in STORED:
            for word in RETIRED.intersection(part.lower() for part in _PARTS.findall(token.string)):
                yield f"{at}:{token.start[0]}: {token.string} contains the retired word {word}"


def lint(pages: Mapping[Path, Sequence[Text]]) -> Iterator[str]:
    """Yield the findings of proselint in texts, which are grouped by file."""
    registry = CheckRegistry()
    if not registry.checks:
        registry.register_many(__register__)
    for path, found in pages.items():
        # One text a line, so that the line of a finding leads to its text.
        linted = LintFile(str(path), "\n".join(" ".join(text.text.split()) for text in found))
        for result in linted.lint({"max_errors": 1_000, "checks": PROSELINT}):
            text = found[result.pos[0] - 1]
            yield f"{path.relative_to(ROOT)}:{text.line}: {result.check_result.message}"


def modules() -> Iterator[Path]:
    for folder in ("src", "scripts", "benchmarks", "examples", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "node_modules" not in path.parts and path.name != "_generated.py":
                yield path


def main() -> None:
    """Print violations and the rate of each kind of text; exit with 1 for a violation or a rate above its budget."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--list",
        nargs="?",
        const="",
        metavar="TEXT",
        help="list the phrases that count against the budgets; with TEXT, only in files whose path contains TEXT",
    )
    chosen = options.parse_args()
    words: Counter[str] = Counter()
    found: defaultdict[str, list[str]] = defaultdict(list)
    pages: defaultdict[Path, list[Text]] = defaultdict(list)
    for text in texts():
        if text.kind in _LINTED:
            pages[text.path].append(text)
        words[text.kind] += len(_WORD.findall(text.text))
        found[text.kind] += phrases_in(text)
    over = False
    for violation in chain(chain.from_iterable(map(violations, modules())), lint(pages)):
        over = True
        print(f"prose: {violation}")
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
