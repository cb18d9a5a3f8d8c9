"""`shoal init`: writes the given settings, describes every setting, and creates a private file."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from shoal.cli import main
from shoal.settings import Settings, build, load
from shoal.settings_file import descriptions, render
from tests.test_settings import CHANGED


def init(folder: Path, *arguments: str, typed: str = "", to: str = "shoal.toml") -> Result:
    return CliRunner().invoke(main, ["init", "--to", str(folder / to), *arguments], input=typed)


def loaded(path: Path) -> Settings:
    return load({"SHOAL_CONFIG": str(path)})


def test_init_command_writes_every_setting_with_its_description(tmp_path: Path) -> None:
    assert list(descriptions()) == list(Settings.__struct_fields__)
    assert init(tmp_path).exit_code == 0
    text = (tmp_path / "shoal.toml").read_text()
    for name, said in descriptions().items():
        assert f"\n# {name} = " in text, name
        assert said in " ".join(line.removeprefix("# ") for line in text.splitlines()), name
    assert tomllib.loads(text) == {}


def test_init_command_file_with_uncommented_defaults_gives_default_settings(tmp_path: Path) -> None:
    names = tuple(f"# {name} = " for name in Settings.__struct_fields__)
    lines = render(Settings()).splitlines()
    shown = [line.removeprefix("# ") if line.startswith(names) else line for line in lines]
    (tmp_path / "shoal.toml").write_text("\n".join(shown))
    assert tomllib.loads("\n".join(shown)).keys() == set(Settings.__struct_fields__)
    assert loaded(tmp_path / "shoal.toml") == Settings()


def test_init_command_options_are_written_to_file(tmp_path: Path) -> None:
    arguments = (
        "--url",
        "https://social.example.org",
        "--title",
        'Ann\'s "pool" \\ #1',
        "--contact-email",
        "a@b.example",
    )
    more = ("--mail", "smtps://post%40b.example:p%3Ass@mail.b.example", "--set", "metrics_port=9500")
    lists = ("--set", 'rules=["Be kind."]', "--set", "approval=true", "--set", 'limits={"api": "600/5m"}')
    assert init(tmp_path, *arguments, *more, *lists).exit_code == 0
    assert loaded(tmp_path / "shoal.toml") == build(
        base_url="https://social.example.org",
        title='Ann\'s "pool" \\ #1',
        contact_email="a@b.example",
        mail="smtps://post%40b.example:p%3Ass@mail.b.example",
        metrics_port=9500,
        rules=["Be kind."],
        approval=True,
        limits={"api": "600/5m"},
    )


def test_init_command_writes_store_option(tmp_path: Path) -> None:
    path = tmp_path / "shoal.toml"
    CliRunner().invoke(main, ["--store", "sqlite:////srv/s.db", "init", "--to", str(path)])
    assert loaded(path) == Settings(store="sqlite:////srv/s.db")


def test_settings_file_with_all_values_changed_round_trips(tmp_path: Path) -> None:
    (tmp_path / "shoal.toml").write_text(render(CHANGED))
    assert loaded(tmp_path / "shoal.toml") == CHANGED


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


@given(TEXTS, st.lists(TEXTS, max_size=3), st.dictionaries(TEXTS, TEXTS, max_size=3), st.floats(min_value=1e-9))
def test_settings_file_with_arbitrary_text_values_round_trips(
    title: str, rules: list[str], limits: dict[str, str], days: float
) -> None:
    asked = Settings(title=title, rules=tuple(rules), limits=limits, timeline_idle_days=days)
    assert build(**tomllib.loads(render(asked))) == asked


def test_init_command_file_is_readable_by_owner_only_and_never_overwritten(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert init(tmp_path, "--mail", "smtps://a:b@mail.example").exit_code == 0
    finally:
        os.umask(before)
    path = tmp_path / "shoal.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    done = init(tmp_path, "--title", "Other")
    assert (done.exit_code, path.read_text()) == (1, text)
    assert "already exists" in done.output
    (tmp_path / "link.toml").symlink_to(tmp_path / "nowhere")
    assert init(tmp_path, to="link.toml").exit_code == 1
    assert not (tmp_path / "nowhere").exists()


def test_init_command_set_option_accepts_any_setting(tmp_path: Path) -> None:
    given = ("--set", "title=Tide pool", "--set", "base_url=https://a.example", "--set", "mail=smtp://b.example")
    assert init(tmp_path, *given).exit_code == 0
    found = loaded(tmp_path / "shoal.toml")
    assert (found.title, found.base_url, found.mail) == ("Tide pool", "https://a.example", "smtp://b.example")


def test_init_command_reads_mail_url_from_standard_input(tmp_path: Path) -> None:
    assert init(tmp_path, "--mail", "-", typed="smtps://a:b@mail.example\n").exit_code == 0
    assert loaded(tmp_path / "shoal.toml").mail == "smtps://a:b@mail.example"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--url", "social.example.org"), 1, "base_url"),
        (("--url", "https://social.example.org/shoal"), 1, "base_url"),
        (("--contact-email", "ann"), 1, "mail"),
        (("--mail", "http://mail.example"), 1, "smtps://"),
        (("--set", "titel=x"), 2, "name of a setting"),
        (("--set", "title"), 2, "NAME=VALUE"),
        (("--set", "port=99999"), 1, "65535"),
        (("--set", "timelines=dynamodb://timelines"), 1, "requires a store on DynamoDB"),
        (("--to", "/nonexistent/shoal.toml"), 1, "does not exist"),
    ],
)
def test_init_command_with_invalid_value_is_refused_and_writes_no_file(
    tmp_path: Path, arguments: tuple[str, ...], status: int, said: str
) -> None:
    done = init(tmp_path, *arguments)
    assert (done.exit_code, done.output.count("\n")) == (status, 1), done.output
    assert said in done.output
    assert list(tmp_path.iterdir()) == []


def test_init_command_on_terminal_prompts_for_missing_settings(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "shoal.cli", "init", "--title", "Tide pool"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs) as asking:
        os.close(theirs)
        os.write(ours, b"https://social.example.org\n\nsmtp://mail.example.org\n")
        assert asking.wait(60) == 0
    os.close(ours)
    asked: dict[str, Any] = {
        "base_url": "https://social.example.org",
        "title": "Tide pool",
        "mail": "smtp://mail.example.org",
    }
    assert loaded(tmp_path / "shoal.toml") == build(**asked)


def test_init_command_suggests_config_option_only_for_non_default_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["init"]).output == "wrote shoal.toml: check it with `shoal doctor`\n"
    named = CliRunner().invoke(main, ["init", "--to", "my file.toml"])
    assert named.output == "wrote my file.toml: check it with `shoal --config 'my file.toml' doctor`\n"
    monkeypatch.setenv("SHOAL_CONFIG", str(tmp_path / "other.toml"))
    other = CliRunner().invoke(main, ["init", "--to", "other.toml"])
    assert other.output == "wrote other.toml: check it with `shoal doctor`\n"
