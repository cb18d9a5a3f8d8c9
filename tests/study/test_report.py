"""The report: one page for each study, with all graphs, that loads nothing and names nobody."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from shoal_study.constraints import GRAPHS, NOT_LEGIBLE
from shoal_study.counting import SCHEMES, StudyOptions
from shoal_study.names import batch_of, generated_batches
from shoal_study.plots import compact
from shoal_study.report import report_page
from shoal_study.statistics import StudyResult
from shoal_study.study import Study

_VOID = {"meta", "br", "hr", "link", "img", "input"}


class Balanced(HTMLParser):
    """Fails unless every element that opens closes, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def studied(count: int, **options: object) -> StudyResult:
    study = Study(StudyOptions(**options))  # type: ignore[arg-type]  # options by name
    for batch in generated_batches(count, 1, lambda _done, _total: None):
        study.add(batch)
    return study.result("a <test> & more")


@pytest.fixture(scope="module")
def result() -> StudyResult:
    """A study of all schemes."""
    return studied(30_000)


@pytest.fixture(scope="module")
def page(result: StudyResult) -> str:
    """Its report."""
    return report_page(result)


def drawings(page: str) -> list[ET.Element]:
    return [
        ET.fromstring(found)  # noqa: S314  # we have just drawn it
        for found in re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    ]


def test_the_page_is_well_formed_and_loads_nothing(page: str) -> None:
    parser = Balanced()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    assert not re.search(r"(?:src|href)=|url\(|@import|<script|<link", page)
    assert "a &lt;test&gt; &amp; more" in page
    assert "prefers-color-scheme:dark" in page


def test_each_of_the_eight_graphs_has_a_plot_with_a_bar_for_every_bucket(page: str, result: StudyResult) -> None:
    levels = {level.graph: level for scheme in result.schemes for level in scheme.levels}
    figures = dict(re.findall(r'<figure class="card" id="(\w+)".*?(<svg.*?</svg>)', page, re.DOTALL))
    assert list(figures) == list(GRAPHS) == ["D1", "D2", "D3", "N1", "N2", "M1", "M2", "M3"]
    for name, found in figures.items():
        drawn = ET.fromstring(found)  # noqa: S314  # the same
        bars = [bar for bar in drawn.findall("rect") if bar.find("title") is not None]
        told = [title.text for bar in bars for title in bar.findall("title")]
        counts, labels = levels[name].counts, levels[name].labels
        assert told == [f"{label}: {count:,} members" for label, count in zip(labels, counts, strict=True)]
        tall = [float(bar.get("height", "0")) for bar in bars]
        fullest = counts.index(max(counts))
        assert [round(each / tall[fullest] * counts[fullest]) for each in tall] == pytest.approx(
            counts, abs=max(counts) / 100
        )


def test_every_plot_says_in_words_what_it_shows_and_stays_inside(page: str) -> None:
    found = drawings(page)
    assert len(found) == len(GRAPHS) + 3
    for each in found:
        assert len(each.get("aria-label", "")) > 40
        _, _, width, height = map(float, each.get("viewBox", "").split())
        for rect in each.findall("rect"):
            x, y, wide, tall = (float(rect.get(key, "nan")) for key in ("x", "y", "width", "height"))
            assert -0.01 <= x <= x + wide <= width + 0.01
            assert -0.01 <= y <= y + tall <= height + 0.01


def test_what_the_paper_prints_is_said_to_be_illegible_where_it_is(page: str) -> None:
    assert page.count(f'colspan="3">{NOT_LEGIBLE}') == len(GRAPHS)
    assert "Seven constraints" in page
    assert page.count("Checked: ") == 7
    assert page.count("shown again just now") == 2


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_study_of_one_scheme_has_a_page_too(scheme: str) -> None:
    parser = Balanced()
    parser.feed(report_page(studied(500, schemes=(scheme,))))
    assert parser.open == []


def test_a_list_of_one_name_has_a_page_and_the_name_is_not_on_it() -> None:
    study = Study(StudyOptions())
    study.add(batch_of(["zaphod_beeblebrox"]))
    assert "zaphod" not in report_page(study.result("one"))


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0"), (950, "950"), (9_860, "9.86k"), (128_133, "128k"), (1_600_000, "1.6M"), (2e9, "2G")]
)
def test_numbers_of_an_axis_are_short(number: float, shown: str) -> None:
    assert compact(number) == shown
