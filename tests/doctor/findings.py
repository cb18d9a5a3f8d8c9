"""Findings of the doctor, for tests."""

from __future__ import annotations

import asyncio
from pathlib import Path

from shoal.monitoring.doctor import examine
from shoal.monitoring.preflight import Diagnosis
from shoal.settings import Settings, build
from shoal.settings_file import render


class Found:
    """The findings of one run of the doctor."""

    def __init__(self, findings: list[Diagnosis]) -> None:
        self.all = findings

    def grades(self, check: str) -> list[str]:
        """Return the grades of a check, in order."""
        return [one.grade for one in self.all if one.check == check]

    def only(self, check: str) -> Diagnosis:
        """Return the only finding of a check."""
        found = [one for one in self.all if one.check == check]
        assert len(found) == 1, self.all
        return found[0]

    def bad(self) -> set[str]:
        """Return the checks with a bad finding."""
        return {one.check for one in self.all if one.grade == "bad"}


def visit(folder: Path, **values: object) -> Found:
    """Run the doctor on these settings, written to a file in the folder, which also has the store by default."""
    path = folder / "shoal.toml"
    path.unlink(missing_ok=True)
    write(path, build(**{"store": f"sqlite:///{folder / 'shoal.db'}", **values}))
    return visit_file(path)


def write(path: Path, settings: Settings) -> None:
    """Write settings to a file that only its owner can read."""
    path.write_text(render(settings))
    path.chmod(0o600)


def visit_file(path: Path, **environ: str) -> Found:
    """Run the doctor on a settings file."""
    return Found(asyncio.run(examine({"SHOAL_CONFIG": str(path), **environ}, {})))
