"""An image build in bare Debian directories that runs the commands of the Containerfile unchanged."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.deploy.bare_debian import layer, sh
from tests.deploy.programs import DEPLOY

ROOT = DEPLOY.parent
FILE = DEPLOY / "container" / "Containerfile"


class Instruction(NamedTuple):
    """An instruction of a Containerfile, with its continuation lines joined."""

    name: str
    rest: str


def instructions() -> list[Instruction]:
    """Return the instructions of our Containerfile, in order."""
    lines = [line for line in FILE.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(None, 1)) for line in joined.splitlines() if line.strip()]


class Image(NamedTuple):
    """The result of a build."""

    root: Path
    environment: dict[str, str]
    user: str
    workdir: str
    entrypoint: list[str]
    command: list[str]
    health: list[str]
    volumes: list[str]


class _Stage:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.arguments: dict[str, str] = {}
        self.environment: dict[str, str] = {}
        self.said: dict[str, str] = {}

    def copy(self, words: list[str], stages: dict[str, _Stage]) -> None:
        source = ROOT
        if words[0].startswith("--from="):
            source = stages[words.pop(0).removeprefix("--from=")].root
        *files, target = words
        # An absolute target replaces the working directory; both are inside the root.
        place = self.root / str(Path(self.said.get("WORKDIR", "/")) / target).lstrip("/")
        for file in files:
            found = source / file.lstrip("/")
            into = place / found.name if target.endswith("/") else place
            into.parent.mkdir(parents=True, exist_ok=True)
            if found.is_dir():
                ignored = shutil.ignore_patterns("__pycache__") if source == ROOT else None
                shutil.copytree(found, into, symlinks=True, ignore=ignored)
            else:
                shutil.copy2(found, into)

    def run(self, command: str) -> None:
        at = self.said.get("WORKDIR", "/")
        done = sh(self.root, command, {**self.arguments, **self.environment}, at=at)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@contextmanager
def image(folder: Path) -> Iterator[Image]:
    """Build our image with Debian's Python and wheels from a folder; it is removed when the block ends."""
    with ExitStack() as stack:
        stages: dict[str, _Stage] = {}
        stage: _Stage | None = None
        for name, rest in instructions():
            if name == "FROM":
                words = rest.split()
                stage = _Stage(stack.enter_context(layer(folder / f"stage-{len(stages)}")))
                stages[words[2] if len(words) > 2 else "final"] = stage
            elif stage is None:
                assert name == "ARG", "only ARG may precede the first FROM"
            else:
                _carry_out(stage, name, rest, stages)
        said = stages["final"].said
        _, _, health = said["HEALTHCHECK"].partition("CMD ")
        yield Image(
            stages["final"].root,
            stages["final"].environment,
            said["USER"],
            said["WORKDIR"],
            json.loads(said["ENTRYPOINT"]),
            json.loads(said["CMD"]),
            json.loads(health),
            json.loads(said["VOLUME"]),
        )


def _carry_out(stage: _Stage, name: str, rest: str, stages: dict[str, _Stage]) -> None:
    if name == "COPY":
        stage.copy(shlex.split(rest), stages)
    elif name == "RUN":
        stage.run(rest)
    elif name in {"ARG", "ENV"}:
        key, _, value = rest.partition("=")
        (stage.arguments if name == "ARG" else stage.environment)[key] = value
    else:
        stage.said[name] = rest
        if name == "WORKDIR":
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
