"""Plots: shapes stay on the page, lines match their data, and labels do not overlap."""

from __future__ import annotations

import itertools
from io import BytesIO
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from shoal.charts import Box, Chart, Stroke, TextLine, as_png, as_svg
from shoal_planner.calibration import shipped
from shoal_planner.plan import plan
from shoal_planner.plots import Axes, Landmark, PlotBar, PlotLine, Scale, bars, lines, stacked
from shoal_planner.report import charts
from shoal_planner.workload import Assumptions, Prices

AXES = Axes("members", "a second", str, str)


def _on_the_page(chart: Chart) -> None:
    for shape in chart.shapes:
        points = shape.points if isinstance(shape, Stroke) else [(shape.x, shape.y)]
        for x, y in points:
            assert 0 <= x <= chart.width, shape
            assert 0 <= y <= chart.height, shape
        if isinstance(shape, Box):
            assert 0 <= shape.width <= chart.width + 1e-6 - shape.x, shape


@pytest.mark.parametrize("members", [1_000, 10_000_000, 2_000_000_000])
def test_plan_charts_stay_within_page_bounds(members: int) -> None:
    calibration = shipped()
    found = charts(plan(Assumptions(members=members), Prices(), calibration), calibration)
    assert len(found) == 5
    for chart in [*found, stacked("all", found)]:
        _on_the_page(chart)
        assert ET.fromstring(as_svg(chart)).get("height") == str(chart.height)  # noqa: S314  # our own


def test_line_chart_labels_at_equal_heights_are_separated() -> None:
    chart = lines("t", "b", [PlotLine(f"line {n}", "after", [(1, 1), (10, 5 + n / 1e6)]) for n in range(4)], AXES)
    ends = sorted(shape.y for shape in chart.shapes if isinstance(shape, TextLine) and shape.text.startswith("line "))
    assert all(second - first >= 14 for first, second in itertools.pairwise(ends))


@given(st.floats(1e-6, 1e6), st.floats(1.5, 1e9), st.booleans())
def test_chart_scale_keeps_order_and_has_round_ticks_within_range(low: float, factor: float, log: bool) -> None:
    scale = Scale(low, low * factor, 10, 500, log)
    assert scale.at(low) == pytest.approx(10)
    assert scale.at(low * factor) == pytest.approx(510)
    assert scale.at(low / 2) == pytest.approx(10)
    ticks = scale.ticks(90)
    assert all(low * (1 - 1e-6) <= tick <= low * factor * (1 + 1e-6) for tick in ticks)
    places = [scale.at(tick) for tick in ticks]
    assert all(second - first >= 89 for first, second in itertools.pairwise(places))


def test_chart_bar_length_is_proportional_and_line_is_drawn_in_its_color() -> None:
    chart = bars("t", "b", [PlotBar("one", 0, 50, "50"), PlotBar("two", 0, 100, "100")], str, "x", log=False)
    one, two = (shape for shape in chart.shapes if isinstance(shape, Box) and shape.color == "after")
    assert two.width == pytest.approx(2 * one.width)
    with Image.open(BytesIO(as_png(lines("t", "b", [PlotLine("l", "loss", [(1, 1), (100, 100)])], AXES)))) as image:
        colors = [color for _, color in image.convert("RGB").getcolors(1 << 20) or []]
    assert (0xB8, 0x45, 0x2C) in colors


def test_bar_chart_with_middle_value_draws_bars_on_both_sides() -> None:
    chart = bars("t", "b", [PlotBar("money", 20, 90, "20 to 90")], str, "x", middle=40, log=False)
    low, high = (shape for shape in chart.shapes if isinstance(shape, Box) and shape.color in ("before", "after"))
    assert low.x + low.width == pytest.approx(high.x)
    assert high.width == pytest.approx(low.width * 2.5)


def test_line_chart_marker_near_right_edge_has_label_on_its_left() -> None:
    chart = lines(
        "t", "b", [PlotLine("l", "after", [(1, 1), (100, 9)])], AXES, marks=[Landmark(90, "here"), Landmark(2, "there")]
    )
    names = {shape.text: shape.anchor for shape in chart.shapes if isinstance(shape, TextLine)}
    assert (names["here"], names["there"]) == ("end", "start")
