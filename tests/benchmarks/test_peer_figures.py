"""Peer figures: citations on the page, and marks on the chart next to existing paths."""

from __future__ import annotations

import re

import pytest

from benchmarks.limits import LIMITS, chart, paths
from benchmarks.measure import REPOSITORY
from benchmarks.page import FIGURES, chart_of, pages
from benchmarks.peers import PEERS, Document, PeerFigure, marks
from benchmarks.results import load
from shoal.charts import Box, TextLine

LETTER = 7.2
"""Width of a letter of a name in the chart, in points."""


def test_benchmark_page_cites_source_of_each_peer_system_figure() -> None:
    page = pages()[REPOSITORY / "docs" / "figures.md"]
    for figure in PEERS:
        assert f"| {figure.says} | {figure.on} |" in page, figure
        assert f"]({figure.document.address})" in page, figure


def test_benchmark_peer_system_sources_have_full_citations_and_undated_ones_are_marked() -> None:
    for document in {figure.document for figure in PEERS}:
        assert re.fullmatch(r"https?://[\w./~%-]+", document.address), document
        assert re.fullmatch(r"(19|20)\d\d|", document.year), document
        assert document.title, document
        assert document.by, document
    assert Document("A talk", "A maker", "", "https://example.org/a").cited().endswith("), undated")
    told = Document("A talk", "A maker", "2013", "https://example.org/a", "a journal").cited()
    assert told == "A maker, [A talk](https://example.org/a), 2013, as reported by a journal"


def test_benchmark_peer_system_figures_refer_to_existing_paths_and_are_sorted_by_rate() -> None:
    drawn = [figure for figure in PEERS if figure.path]
    assert {figure.path for figure in drawn} <= {limit.path for limit in LIMITS}
    assert all(figure.document.year and figure.rate > 0 for figure in drawn)
    beside = list(marks("Deliveries in memory"))
    assert [mark.rate for mark in beside] == sorted((mark.rate for mark in beside), reverse=True)
    assert "Rama 2023, a node" in {mark.label for mark in beside}
    assert list(marks("no such path")) == []


@pytest.mark.parametrize(
    ("machines", "each", "shown"), [(4, 250.0, "250 per second"), (1, 1_000.0, ""), (0, 1_000.0, "")]
)
def test_benchmark_peer_system_rate_is_divided_by_machine_count(machines: int, each: float, shown: str) -> None:
    figure = PeerFigure("peer", "says", "on", PEERS[0].document, 1_000.0, machines)
    assert figure.rate_of_one() == each
    assert figure.cells()[3] == shown
    assert figure.label().endswith("all of it" if machines == 0 else "a machine")


def test_benchmark_limits_chart_labels_of_peer_systems_do_not_overlap() -> None:
    kept = load(FIGURES)
    shapes = chart_of(kept).shapes
    dots = [shape for shape in shapes if isinstance(shape, Box) and shape.color == "amber"]
    wanted = [mark for path in paths(kept.results) for mark in marks(path.limit.path)]
    assert len(dots) == len(wanted) > 0
    lines = [shape for shape in shapes if isinstance(shape, TextLine)]
    for mark in wanted:
        assert any(line.text == mark.label for line in lines), mark
    for dot in dots:
        name, words = sorted((line for line in lines if abs(line.y - dot.y - 9) < 10), key=lambda line: line.x)
        assert name.x - LETTER * len(name.text) >= 0
        assert name.x < dot.x
        assert dot.x + dot.width < words.x


def test_benchmark_limits_chart_omits_peer_systems_of_unmeasured_path() -> None:
    kept = [path for path in paths(load(FIGURES).results) if path.limit.path != "Durable posts"]
    told = {shape.text for shape in chart(kept, "").shapes if isinstance(shape, TextLine)}
    assert "Home page, re-rendered" in told
    assert {f"{mark.rate:.0f}" for mark in marks("Durable posts")} == {"6000", "152"}
    assert "6 k/s" not in told
    assert "152/s" not in told
