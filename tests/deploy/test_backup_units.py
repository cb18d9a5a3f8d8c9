"""The systemd units of the nightly backup: the commands write only to the allowed paths, and the units are valid."""

from __future__ import annotations

import asyncio
import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shoal import Shoal

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"


def _lines(name: str, key: str) -> list[str]:
    text = (UNITS / name).read_text()
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]


def test_backup_unit_commands_create_and_verify_backup(tmp_path: Path) -> None:
    (tmp_path / "shoal").mkdir()
    (tmp_path / "shoal" / "shoal.toml").write_text(f'store = "sqlite:///{tmp_path}/shoal/shoal.db"\n')
    asyncio.run(_member(tmp_path))
    commands = _lines("shoal-backup.service", "ExecStart")
    assert len(commands) == 2
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "/srv/shoal/venv/bin/shoal"
        moved = [each.replace("/srv/", f"{tmp_path}/") for each in arguments]
        done = subprocess.run([sys.executable, "-m", "shoal.cli", *moved], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "shoal"]
    # All files were written to paths that the unit allows.
    (allowed,) = _lines("shoal-backup.service", "ReadWritePaths")
    assert {path.replace("/srv", str(tmp_path)) for path in allowed.split()} == set(map(str, tmp_path.iterdir()))


async def _member(folder: Path) -> None:
    async with Shoal.open(f"sqlite:///{folder}/shoal/shoal.db") as shoal:
        await shoal.register("ann")


def test_backup_timer_starts_service_and_catches_up_missed_runs() -> None:
    timer = configparser.ConfigParser()
    timer.read(UNITS / "shoal-backup.timer")
    assert timer["Timer"]["Persistent"] == "true"
    assert timer["Install"]["WantedBy"] == "timers.target"
    assert (UNITS / "shoal-backup.service").exists()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_backup_units_pass_systemd_analyze_verify(tmp_path: Path) -> None:
    for name in ("shoal-backup.service", "shoal-backup.timer"):
        text = (UNITS / name).read_text().replace("/srv/shoal/venv/bin/shoal", "/bin/true").replace("User=shoal", "")
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *map(str, tmp_path.iterdir())], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
