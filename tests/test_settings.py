"""Settings travel to child processes, through their environment or a file, as what they are."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.ops.cluster.cluster import SETTINGS_FILE, _write
from shoal.settings import Settings, environment, load

OTHER: dict[str, Any] = {
    "store": {"0-31": "sqlite:///one.db", "32-63": "sqlite:///two.db"},
    "rules": ("Be kind.", 'Say "please", or [do not].'),
    "trusted_proxies": ("10.0.0.0/8", "2001:db8::1"),
    "push_networks": ("10.1.0.0/16",),
    "limits": {"api": "600/5m", "signup": "off"},
    "recipe": {"weights": {"friends": 4.0, "seen": -6.0}, "half_life_hours": 12.5},
    "log_format": "json",
    "request_log": "all",
    "log_level": "debug",
    "email_confirmation": "required",
    "invitations": "members",
}
"""Values that `_another` does not derive from the default."""


def _another(name: str, default: Any) -> Any:
    if name in OTHER:
        return OTHER[name]
    if isinstance(default, bool):
        return not default
    if isinstance(default, int | float):
        return default + 1
    if isinstance(default, tuple | dict):
        pytest.fail(f"give {name} another value here")
    return f"{default}?"


CHANGED = Settings(**{name: _another(name, getattr(Settings(), name)) for name in Settings.__struct_fields__})


@pytest.mark.parametrize("settings", [Settings(), CHANGED], ids=["as they ship", "all others"])
def test_the_environment_of_a_child_gives_it_the_same_settings(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shoal.toml").write_text('title = "of a file that happens to lie here"\nrules = ["Of the file."]')
    assert load(environment(settings)) == settings


def test_the_file_of_a_cluster_gives_the_same_settings(tmp_path: Path) -> None:
    path = tmp_path / SETTINGS_FILE
    _write(path, CHANGED)
    assert msgspec.convert(tomllib.loads(path.read_text("utf-8")), Settings) == CHANGED
