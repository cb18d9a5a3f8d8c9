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


def test_prose_check_reports_module_phrases_with_kind_and_line(module: Path) -> None:
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


def test_prose_check_with_kind_over_budget_fails(
    module: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prose, "texts", lambda: prose.of_module(module))
    monkeypatch.setattr(prose, "BUDGETS", {"comments": 333.4, "docstrings": 2.0})
    monkeypatch.setattr("sys.argv", ["prose", "--list", "module.py:1"])
    with pytest.raises(SystemExit, match="1"):
        prose.main()
    printed = capsys.readouterr().out
    assert "prose: comments: 333.33 phrases per 1,000 words (1 in 3), within 333.4" in printed
    assert "exceeds its budget of 2\n  module.py:1: Nobody\n" in printed
