"""Executes the commands and programs of the tutorial and how-to pages, and compares their output with the pages."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server_process import first_url
from tests.wheel import Installed, bare

DOCS = Path(__file__).resolve().parent.parent / "docs"
ADDRESS = "http://127.0.0.1:8500"
ALREADY = re.compile(r"\. \.venv/bin/activate$|pip install |mkdir ")
"""Commands that prepare an environment. Tests skip them."""
BLOCK = re.compile(r"^```(\w+)(?: title=\"([\w.]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Reader:
    """Runs the code blocks of a page in an empty folder, with an installed package."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self._programs = programs
        self.printed: str | None = None
        self.server: subprocess.Popen[str] | None = None
        self._address = ADDRESS

    def follow(self, page: Path) -> int:
        """Run all blocks of a page; return the number of output blocks that were compared."""
        promises = 0
        for kind, title, text in BLOCK.findall(page.read_text()):
            if kind == "text":
                assert self.printed == text
                promises += 1
            elif kind == "sh":
                for line in text.splitlines():
                    self._type(line)
            elif title:
                (self.folder / title).write_text(text.replace(ADDRESS, self._address))
            else:
                (self.folder / "program.py").write_text(text)
                self._type("python program.py")
        return promises

    def stop(self) -> None:
        """Stop the server that the page started."""
        if self.server is not None:
            self.server.kill()
            self.server.wait(60)
            assert self.server.stdout is not None
            self.server.stdout.close()

    def _type(self, line: str) -> None:
        if ALREADY.match(line):
            return
        program, *words = shlex.split(line)
        command = [str(self._programs / program), *words]
        environment = {**bare(), "PYTHONDONTWRITEBYTECODE": "1"}
        if "serve" in words:
            self.server = subprocess.Popen(
                [*command, "--port", "0"], cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True
            )
            self._address = first_url(self.server)
            return
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        self.printed = done.stdout


@pytest.fixture
def reader(tmp_path: Path, installed: Installed) -> Iterator[Reader]:
    """A reader in an empty folder, with the wheel installed."""
    made = Reader(tmp_path, installed.programs)
    yield made
    made.stop()


def test_tutorial_commands_print_documented_output(reader: Reader) -> None:
    assert reader.follow(DOCS / "tutorial.md") == 5


def test_recipe_tutorial_commands_print_documented_output(reader: Reader) -> None:
    assert reader.follow(DOCS / "tutorial-recipes.md") == 4


def test_embedding_guide_programs_print_documented_output(reader: Reader) -> None:
    assert reader.follow(DOCS / "howto" / "embed.md") == 3


def test_library_guide_programs_print_documented_output(reader: Reader) -> None:
    assert reader.follow(DOCS / "howto" / "library.md") == 4
