"""Check the installed packages for known vulnerabilities: `python -m scripts.audit`.

Exits with 1 if a package has one that `IGNORED` does not list. If the vulnerability service does not answer, nothing is checked:
the reason is printed and the exit status is 0, so that neither working offline nor an outage of the service fails a run.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

IGNORED: Final[Mapping[str, str]] = {}
"""Advisories that do not apply to Shoal: the id, and the reason. Remove an entry when a fixed release is out."""

COMMAND: Final = (
    sys.executable,
    *("-m", "pip_audit", "--format", "json", "--skip-editable", "--progress-spinner", "off", "--timeout", "10"),
)


class Vulnerability(msgspec.Struct):
    id: str
    fix_versions: list[str]
    aliases: list[str]

    def ids(self) -> set[str]:
        """Return the id and its aliases (CVE, GHSA, PYSEC)."""
        return {self.id, *self.aliases}


class Package(msgspec.Struct):
    """A package of pip-audit's report; one that was not checked has a reason instead of a version."""

    name: str
    version: str = ""
    vulns: list[Vulnerability] = []
    skip_reason: str | None = None


class Report(msgspec.Struct):
    dependencies: list[Package]


def audit(command: Sequence[str] = COMMAND, ignored: Mapping[str, str] = IGNORED) -> int:
    """Run pip-audit, print the result in one line for each vulnerability, and return the exit status."""
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        report = msgspec.json.decode(run.stdout, type=Report)
    except msgspec.DecodeError:
        reason = (run.stderr.strip() or f"pip-audit exited with {run.returncode}").splitlines()[-1]
        return _skipped(f"no answer from the vulnerability service ({reason})")
    checked = [package for package in report.dependencies if package.skip_reason is None]
    if not checked:
        return _skipped("the package index has no vulnerability data")
    found = [
        (package, vulnerability)
        for package in checked
        for vulnerability in package.vulns
        if not vulnerability.ids() & ignored.keys()
    ]
    for package, vulnerability in found:
        names = ", ".join(sorted(vulnerability.ids()))
        fixed = " or ".join(vulnerability.fix_versions) or "no release yet"
        print(f"audit: {package.name} {package.version}: {names}, fixed in {fixed}")
    if not found:
        print(f"audit: no known vulnerability in {len(checked)} of {len(report.dependencies)} packages")
    return 1 if found else 0


def _skipped(reason: str) -> int:
    print(f"audit: skipped: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(audit())
