"""The vulnerability check of `make check`, with reports as pip-audit prints them."""

from __future__ import annotations

import json
import sys

import pytest
from scripts.audit import IGNORED, audit

SOUND = {"name": "rich", "version": "15.0.0", "vulns": []}
SKIPPED = {"name": "rich", "skip_reason": "Dependency not found on PyPI and could not be audited: rich (15.0.0)"}
VULNERABLE = {
    "name": "jinja2",
    "version": "3.1.5",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1.6"], "aliases": ["CVE-2025-27516"], "description": "Escape."}],
}


def printing(*packages: object, status: int = 0) -> list[str]:
    """Return a command that reports these packages as pip-audit does."""
    text = json.dumps({"dependencies": packages, "fixes": []})
    return [sys.executable, "-c", f"import sys; print({text!r}); sys.exit({status})"]


def test_vulnerability_audit_without_findings_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(printing(SOUND, SKIPPED)) == 0
    assert capsys.readouterr().out == "audit: no known vulnerability in 1 of 2 packages\n"


def test_vulnerability_audit_with_vulnerable_package_fails_and_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(printing(SOUND, VULNERABLE, status=1)) == 1
    assert capsys.readouterr().out == "audit: jinja2 3.1.5: CVE-2025-27516, PYSEC-1, fixed in 3.1.6\n"


@pytest.mark.parametrize("id_", ["PYSEC-1", "CVE-2025-27516"])
def test_vulnerability_audit_with_ignored_advisory_id_or_alias_passes(id_: str) -> None:
    assert audit(printing(VULNERABLE, status=1), {id_: "templates are our own"}) == 0


def test_vulnerability_audit_with_unreachable_service_is_skipped_with_reason(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    failing = "import sys; sys.exit('ERROR:pip_audit._cli:Could not connect to PyPI')"
    assert audit([sys.executable, "-c", failing]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("audit: skipped: no answer from the vulnerability service")
    assert "Could not connect to PyPI" in shown


def test_vulnerability_audit_of_index_without_data_is_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(printing(SKIPPED)) == 0
    assert capsys.readouterr().out == "audit: skipped: the package index has no vulnerability data\n"


def test_vulnerability_audit_ignored_advisories_have_reasons() -> None:
    assert all(IGNORED.values())
