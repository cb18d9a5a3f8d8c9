"""The pages of figures are rendered from docs/figures.json."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.measure import FULL, Check, Figure, benchmarks
from benchmarks.page import FIGURES, HEADLINES, TEMPLATES, Headline, charts, headlines, load_long, pages, rendered
from benchmarks.results import Machine, Result, Results, keep, load
from shoal.charts import render

MACHINE = Machine("a processor", 2, 24, "6.18", "3.11.7", "2.4.6", "3.40.1")
PROSE_OF_ONE = "{facts}\n{targets}\n```figures one\nposts*\nlag\n```\nAfter it.\n"


def results(*of: Result) -> Results:
    return Results(MACHINE, "2026-11-22", "0123456789", list(of))


def result(name: str, size: str = FULL, busy: float = 0.0) -> Result:
    figures = [
        Figure("lag", 1_200, "ms", most=1_000),
        Figure("posts", 3_500, "1/s", least=3_000, raw=7_000),
        Figure("not shown", 1),
    ]
    return Result(name, f"shoal bench {name}", size, busy, 61, figures, [Check("posts", 1, 1)])


def test_benchmark_pages_match_stored_benchmark_figures() -> None:
    for path, text in pages().items():
        assert path.read_text("utf-8") == text, f"{path.name}: python -m benchmarks.page"


def test_benchmark_charts_match_stored_benchmark_figures() -> None:
    for path, chart in charts().items():
        assert path.read_bytes() == render(chart, path.name), f"{path.name}: python -m benchmarks.page"


def test_benchmark_summary_has_figure_for_each_headline() -> None:
    table = headlines(load(FIGURES).results, HEADLINES, load_long())
    assert "not measured" not in table
    assert table.count("\n") == len(HEADLINES) + 2


def test_benchmark_summary_shows_ratio_to_engine_for_rates_and_times() -> None:
    of_times = Result("two", "shoal bench two", FULL, 0.0, 61, [Figure("wait", 8.0, "ms", raw=4.0)], [])
    rows = (
        Headline("Posts", "one", "posts*", "engine"),
        Headline("Wait", "two", "wait", "engine"),
        Headline("Lag", "one", "lag"),
    )
    assert headlines([result("one"), of_times], rows).splitlines()[2:] == [
        "| Posts | 3,500/s | 7,000/s (engine) | 0.50 | `shoal bench one` |",
        "| Wait | 8 ms | 4 ms (engine) | 0.50 | `shoal bench two` |",
        "| Lag | 1,200 ms |  |  | `shoal bench one` |",
    ]
    assert "| Posts | not measured | | | `shoal bench one` |" in headlines([], rows)


def test_benchmark_page_has_table_for_each_benchmark() -> None:
    template = (TEMPLATES / "figures.md").read_text("utf-8")
    assert set(re.findall(r"```(?:long )?figures (\w+)", template)) == set(benchmarks())
    blocks = re.findall(r"```figures ([\w ]+)\n(.*?)```", template, re.DOTALL)
    kept = {held.benchmark: held for held in load(FIGURES).results}
    for name, patterns in blocks:
        if name in kept:
            page = rendered(f"```figures {name}\n{patterns}```\n", load(FIGURES))
            assert page.count("\n| ") > 1, name


def test_benchmark_page_of_long_run_shows_machine_date_and_commit() -> None:
    prose = "```long figures one\nlag\n```\n```long figures other\nlag\n```\n"
    page = rendered(prose, results(), [Results(MACHINE, "2026-11-24", "fedcba", [result("one")])])
    assert "Measured on 2026-11-24, commit fedcba, a processor" in page
    assert "| lag | 1,200 ms |" in page
    assert "The long run was not measured." in page
    page = rendered(
        "```figures one\nlag\n```\n", results(), [Results(MACHINE, "2026-11-24", "fedcba", [result("one")])]
    )
    assert "Measured on 2026-11-24, commit fedcba, a processor" in page, "not yet in the run of all benchmarks"


def test_benchmark_stored_figures_have_no_failed_checks_and_contain_no_file_paths() -> None:
    kept = load(FIGURES)
    assert [check for held in kept.results for check in held.checks if not check.right] == []
    assert not re.search(r"/(work|home|root|tmp)\b", FIGURES.read_text("utf-8"))


def test_benchmark_page_table_keeps_order_of_figures_and_shows_verdict_of_each_target() -> None:
    page = rendered(PROSE_OF_ONE, results(result("one")))
    assert "2026-11-22, commit 0123456789, a processor, 2 cores, 24 GiB" in page
    assert "1 of 2 targets are met; missed are:\n\n- one, lag: 1,200 ms, <= 1,000: missed by 20%" in page
    table = page.partition("`shoal bench one`\n\n")[2].splitlines()
    assert table[2:5] == [
        "| posts | 3,500 1/s | 7,000 | 0.50 | >= 3,000: met |",
        "| lag | 1,200 ms |  |  | <= 1,000: missed by 20% |",
        "After it.",
    ]


def test_benchmark_page_states_quick_runs_busy_machine_and_missing_results() -> None:
    page = rendered(PROSE_OF_ONE, results(result("one", "quick", 0.5)))
    assert "a quick run: small sizes, no targets; others had 50% of the machine: times say little" in page
    assert "`shoal bench one` was not measured." in rendered(PROSE_OF_ONE, results())


def test_benchmark_figures_merge_with_results_of_other_day_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    keep(path, results(result("one"), result("two")), whole=True)
    keep(path, results(result("two", "quick"), result("three")), whole=False)
    assert [(held.benchmark, held.size) for held in load(path).results] == [
        ("one", FULL),
        ("three", FULL),
        ("two", "quick"),
    ]
    other = results(result("one"))
    other.day = "2026-11-23"
    with pytest.raises(SystemExit, match="another machine, day or commit"):
        keep(path, other, whole=False)
    keep(path, other, whole=True)
    assert [held.benchmark for held in load(path).results] == ["one"]
