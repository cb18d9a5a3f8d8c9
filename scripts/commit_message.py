"""Check a commit message: an imperative subject of at most 72 characters, a blank line, a body wrapped at 72.

`python -m scripts.commit_message FILE` is the `commit-msg` hook of `.pre-commit-config.yaml`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

COMMAND = "python -m scripts.commit_message"
LONGEST = 72
"""Maximum length of a line, which `git log` and reviews show without wrapping."""

_NO_VERB = re.compile(r"(a|an|the|this|that|these|those|it|its|there|i|we|you|in|on|at|for|with|when|where|if|no|not)$")
_OTHER_FORM = re.compile(
    r"(?!embed|exceed|feed|need|proceed|seed|shed|speed|bring|ping|string|swing).*(ed|ing|[^isu]s)$"
)
"""Past tense, participle and third person. Verbs such as pass, discuss and focus end in two s or in us."""
_GENERATED = ("Merge ", "Revert ", "fixup! ", "squash! ")


def problems(message: str) -> Iterator[str]:
    """Yield the problems of a commit message. Comments of git are ignored."""
    lines = [line.rstrip() for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if subject.startswith(_GENERATED):
        return
    word = subject.partition(" ")[0]
    if not subject:
        yield "subject: is empty"
    elif not word[0].isupper():
        yield f"subject: begin with a capitalized verb (got {word!r})"
    elif _NO_VERB.match(word.lower()) or _OTHER_FORM.match(word.lower()):
        yield f"subject: begin with an imperative verb, such as Add, Fix or Retry (got {word!r})"
    if len(subject) > LONGEST:
        yield f"subject: at most {LONGEST} characters (got {len(subject)})"
    if subject.endswith("."):
        yield "subject: no period at the end"
    if len(lines) > 1 and lines[1]:
        yield "body: separate it from the subject by a blank line"
    for number, line in enumerate(lines[2:], 3):
        if len(line) > LONGEST and " " in line.strip():
            yield f"body: wrap line {number} at {LONGEST} characters (got {len(line)})"


def main() -> None:
    found = list(problems(Path(sys.argv[1]).read_text("utf-8")))
    for problem in found:
        print(problem, file=sys.stderr)
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
