"""The placement study page: its tables and plots equal the output of the command for the real names."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from shoal.cli import main
from shoal_study.statistics import StudyResult
from tests.real_data import real_data

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "placement-study.md").read_text("utf-8")
REPORT = (DOCS / "placement-report.html").read_text("utf-8")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the output of the command for the real names, and the report that it writes."""
    names = real_data("usernames") / "usernames" / "fotolog_usernames.txt.gz"
    report = tmp_path_factory.mktemp("report") / "report.html"
    command = ["placement", "study", str(names), "--report", str(report)]
    done = CliRunner().invoke(main, command, env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    return done.stdout, report.read_text("utf-8")


def test_placement_study_page_tables_equal_command_output(drawn: tuple[str, str]) -> None:
    blocks = re.findall(r"^```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 7
    printed = "\n".join(line.rstrip() for line in drawn[0].splitlines())
    for block in blocks:
        assert block.rstrip() in printed


MAPPING_ROWS = re.findall(r"^\| `(--generated [^`]*)` \| ([^|]*) \| ([^|]*) \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("options", "now", "later"), MAPPING_ROWS)
def test_placement_study_page_mapping_examples_equal_command_output(options: str, now: str, later: str) -> None:
    command = ["placement", "study", "--only", "mapping", "--json", *options.split()]
    result = msgspec.json.decode(CliRunner().invoke(main, command).stdout, type=StudyResult)
    assert result.mapping is not None
    even = next(each for each in result.constraints if each.name == "Even").outcomes[0].met
    numbers = {f"{each:,}" for each in result.mapping.members if each} | {str(result.mapping.idle or "")}
    assert set(re.findall(r"[\d,]*\d(?= on| idle)", now)) <= numbers | {str(result.mapping.members.count(50_000))}
    assert (
        f"{max(result.mapping.furthest, result.mapping.next_furthest):.1%}".replace(".0%", "%").replace("%", " %")
        in later
    )
    assert later.endswith("even")
    assert later.endswith("not even") != even
    if "members" in later:
        assert f"{result.mapping.next_count:,} members one server has {max(result.mapping.next_members):,}" in later
    assert len(MAPPING_ROWS) == 4


def test_placement_study_report_plots_equal_command_output(drawn: tuple[str, str]) -> None:
    # Another NumPy release may draw a different random distribution.
    random = re.compile(r'<polyline class="cool dashed"[^>]*/>')
    kept, new = (random.sub("", "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))) for page in (REPORT, drawn[1]))
    assert new.count("<svg") == 16
    assert kept == new, "shoal placement study NAMES --report docs/placement-report.html"


def test_placement_study_report_loads_no_external_resources() -> None:
    assert not re.search(r"(?:src|href)=|url\(|<script|<link", REPORT)
    assert "631,154 names" in REPORT
