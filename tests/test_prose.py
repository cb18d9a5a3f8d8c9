"""The check of English finds phrases in each kind of text, with their places."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import prose

MODULE = '''"""Nobody is here."""
import logging
# The same again.
def f(x):  # noqa: D103
    """Return `nobody` and the value.

    Somebody reads it.
    """
    logging.warning("told twice")
    raise ValueError("whoever it is")
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    return path


def test_prose_check_reports_banned_phrases_of_module_with_kind_and_line(module: Path) -> None:
    found = [(text.kind, phrase) for text in prose.of_module(module) for phrase in prose.phrases_in(text)]
    assert sorted(found) == [
        ("comments", "module.py:3: The same"),
        ("docstrings", "module.py:1: Nobody"),
        ("docstrings", "module.py:7: Somebody"),
        ("messages", "module.py:10: whoever"),
        ("messages", "module.py:9: told"),
    ]


def test_prose_check_ignores_code_in_pages(module: Path) -> None:
    page = module.with_name("page.md")
    page.write_text("It stands.\n\n    somebody --help\n\n`nobody` is [a link](beside.md)\n\n```\nanew\n```\nAnew.\n")
    found = [phrase for text in prose.of_page(page, "documentation") for phrase in prose.phrases_in(text)]
    assert found == ["page.md:1: stands", "page.md:10: Anew"]


def test_prose_check_over_phrase_budget_of_docstrings_fails_and_lists_phrases(
    module: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prose, "texts", lambda: prose.of_module(module))
    monkeypatch.setattr(prose, "modules", lambda: iter(()))
    monkeypatch.setattr(prose, "BUDGETS", {"comments": 333.4, "docstrings": 2.0})
    monkeypatch.setattr("sys.argv", ["prose", "--list", "module.py:1"])
    with pytest.raises(SystemExit, match="1"):
        prose.main()
    printed = capsys.readouterr().out
    assert "prose: comments: 333.33 phrases per 1,000 words (1 in 3), within 333.4" in printed
    assert "exceeds its budget of 2\n  module.py:1: Nobody\n" in printed


@pytest.mark.parametrize(
    ("path", "line", "found"),
    [
        ("src/a.py", '"""A module."""', "src/a.py:1: the docstring 'A module.' has fewer than 4 words"),
        ("src/a.py", "wanted_posts = 1", "src/a.py:1: wanted_posts contains the retired word wanted"),
        ("src/a.py", "class LoudAuthor: ...", "src/a.py:1: LoudAuthor contains the retired word loud"),
        (
            "tests/a.py",
            "def test_what_is_left() -> None: ...",
            "tests/a.py:1: test_what_is_left does not begin with its subject",
        ),
        ("tests/a.py", "async def test_a() -> None: ...", "tests/a.py:1: test_a does not begin with its subject"),
        ("tests/a.py", "def test_two_factor_login_asks_for_code() -> None: ...", None),
        ("tests/a.py", "def test_a11y_of_pages() -> None: ...", None),
        ("src/a.py", '"""A module that is described."""', None),
        ("src/a.py", "cloudy = 1", None),
    ],
)
def test_prose_check_reports_short_docstrings_retired_names_and_tests_without_subject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, line: str, found: str | None
) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    module = tmp_path / path
    module.parent.mkdir()
    module.write_text(f"{line}\n")
    assert list(prose.violations(module)) == ([found] if found else [])


def test_prose_check_with_violation_fails(
    module: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module.write_text('"""Short text."""\n')
    monkeypatch.setattr(prose, "modules", lambda: iter([module]))
    monkeypatch.setattr(prose, "texts", lambda: iter(()))
    monkeypatch.setattr("sys.argv", ["prose"])
    with pytest.raises(SystemExit, match="1"):
        prose.main()
    assert "prose: module.py:1: the docstring 'Short text.' has fewer than 4 words" in capsys.readouterr().out


def test_prose_check_reports_proselint_findings_with_file_and_line(module: Path) -> None:
    found = [
        prose.Text("README", module, line, text)
        for line, text in ((3, "The first\nline."), (7, "Use an ATM machine."), (9, "The last line."))
    ]
    assert list(prose.lint({module: found})) == ["module.py:7: RAS syndrome. Use 'ATM' instead of 'ATM machine'."]
