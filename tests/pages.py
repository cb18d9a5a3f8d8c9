"""Code that pages say to type, taken from them so that tests can run it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
PROMISED = "ann Low tide at #dawn, says @bob 1\n"
"""The output of the README's first script."""


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language on a page, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def code(page: Path, language: str, word: str) -> str:
    """The first block of a language that contains a word. Raises `StopIteration` for none."""
    return next(block for block in blocks(page, language) if word in block)


def type_commands(programs: Path, folder: Path) -> None:
    """Type the README's lines that add a member in a folder, with the programs of an environment."""
    lines = re.findall(r"^    (echo .*shoal member add.*)$", README.read_text(), re.MULTILINE)
    assert lines
    for line in lines:
        subprocess.run(line, shell=True, cwd=folder, env={"PATH": f"{programs}:/usr/bin:/bin"}, check=True)  # noqa: S602  # our page
