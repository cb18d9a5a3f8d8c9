"""Code blocks of documentation pages, which tests run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
PROMISED = "ann Low tide at #dawn, says @bob 1\n"
"""The output of the README's first script."""


BLOCK = re.compile(r"^```(\w+)(?: title=\"([\w./]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
"""A fenced block of a page: its language, the path of the file that it is, or an empty text, and its content."""


def files(page: Path) -> dict[str, str]:
    """Return the files that a page consists of, by their paths."""
    return {title: text for _, title, text in BLOCK.findall(page.read_text()) if title}


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks in a language on a page, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def code(page: Path, language: str, word: str) -> str:
    """Return the first block in a language that contains a word. Raises `StopIteration` if there is none."""
    return next(block for block in blocks(page, language) if word in block)


def type_commands(programs: Path, folder: Path) -> None:
    """Run the README's commands that add a member, in a directory and with the programs of an environment."""
    lines = re.findall(r"^    (echo .*shoal member add.*)$", README.read_text(), re.MULTILINE)
    assert lines
    for line in lines:
        subprocess.run(line, shell=True, cwd=folder, env={"PATH": f"{programs}:/usr/bin:/bin"}, check=True)  # noqa: S602  # trusted
