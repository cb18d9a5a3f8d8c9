"""The report of a study: tables and plots in one self-contained HTML file, for light and dark mode (`report.html`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined

from shoal_study.constraints import EVEN
from shoal_study.paper import COMPARISON_HEADINGS, GRAPHS, NAMES, TITLE, comparison_cells, fullest_text, ratio_text
from shoal_study.plots import cooling_plot, level_plot, mapping_plot, moving_plot
from shoal_study.statistics import LevelFigures, MappingFigures, SchemeFigures, StudyResult, shown_probability

_UNLIKELY = 0.001
"""Below this probability, a distribution is not considered random."""


def percent(share: float) -> str:
    return f"{share:.1%}" if share < 10 else f"{share:,.0f} x"


LEVEL_COLUMNS: Mapping[str, Callable[[LevelFigures], str]] = {
    "buckets": lambda level: f"{level.buckets:,}",
    "mean": lambda level: f"{level.mean:,.1f}",
    "deviation": lambda level: f"{level.deviation:,.1f}",
    "of mean": lambda level: percent(level.relative),
    "random": lambda level: f"{level.uniform:,.1f}",
    "chi-square": lambda level: f"{level.chi_square:,.0f}",
    "p": lambda level: shown_probability(level.p, level.log10_p),
    "fullest": lambda level: f"{level.fullest:,}",
    "emptiest": lambda level: f"{level.emptiest:,}",
    "empty": lambda level: f"{level.empty:,}",
    "furthest": lambda level: percent(level.furthest),
    "hottest": lambda level: f"{level.hottest_bucket}: {level.hottest:.2f} x" if level.hottest else "",
    "its members": lambda level: f"{level.hottest_members:,}" if level.hottest else "",
}


def quantities(scheme: SchemeFigures) -> Iterator[LevelFigures]:
    """Yield the figures that the paper shows as graphs, then those of each lower level by itself, which the paper does not show."""
    first, *single = scheme.levels
    yield first
    yield from scheme.paths[1:]
    yield from single


def report_page(result: StudyResult) -> str:
    environment = Environment(
        loader=PackageLoader("shoal_study", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["n"] = lambda number, form=",": format(number, form)
    environment.globals |= {
        "columns": LEVEL_COLUMNS,
        "comparison_cells": comparison_cells,
        "comparison_headings": COMPARISON_HEADINGS,
        "cooling_plot": cooling_plot,
        "fullest_text": fullest_text,
        "graphs": GRAPHS,
        "hot_range_text": hot_range_text,
        "level_plot": level_plot,
        "mapping_plot": mapping_plot,
        "moving_plot": moving_plot,
        "paper_names": NAMES,
        "percent": percent,
        "quantities": quantities,
        "ratio_text": ratio_text,
        "title": TITLE,
        "verdict_of_level": _verdict_of_level,
        "verdict_of_scheme": _verdict_of_scheme,
    }
    titles = {scheme.key: scheme.title for scheme in result.schemes} | {"mapping": "Mapping", "shoal": "Shoal's map"}
    return environment.get_template("report.html").render(
        result=result,
        tiles=list(_tile_texts(result)),
        compared={each.graph: each for each in result.paper},
        titles=titles,
    )


def _tile_texts(result: StudyResult) -> Iterator[tuple[str, str]]:
    schemes = {scheme.key: scheme for scheme in result.schemes}
    if "letters" in schemes:
        worst = max(schemes["letters"].levels, key=lambda level: level.fullest / max(level.mean, 1))
        yield (
            f"{worst.fullest / max(worst.mean, 1):.1f} x",
            f"the mean: size of the fullest bucket of the letter scheme ({worst.name})",
        )
    if "md5" in schemes:
        md5 = schemes["md5"]
        yield (
            percent(max(level.furthest for level in md5.levels)),
            "largest distance of an MD5 bucket from the mean, at any level",
        )
        yield (
            f"{md5.nanoseconds:,.0f} ns",
            f"to place a name by MD5, and {result.bare_loop.nanoseconds:,.0f} ns in a bare loop over hashlib",
        )
    moved = {each.key: each.changes[0].moved / max(each.servers.members, 1) for each in result.servers}
    if {"modulo", "shoal"} <= moved.keys():
        yield (
            f"{moved['shoal']:.1%}",
            f"of the members move when a server is added with Shoal's map, and {moved['modulo']:.1%} with a hash modulo",
        )


def _verdict_of_level(level: LevelFigures) -> str:
    if level.p >= _UNLIKELY:
        return (
            f"As even as a random distribution (p = {level.p:.2f}): the ratio is {ratio_text(level.relative)}, and the ratio of a "
            f"random distribution is {ratio_text(level.uniform / level.mean if level.mean else 0)}."
        )
    if level.furthest > EVEN:
        mean = max(level.mean, 1)
        empty = f"; {level.empty:,} are empty" if level.empty else ""
        return (
            f"Uneven: bucket {level.fullest_bucket} has {level.fullest / mean:.1f} times the mean, and bucket "
            f"{level.emptiest_bucket} has {level.emptiest / mean:.2f} times the mean{empty}."
        )
    return f"Less even than a random distribution, but no bucket deviates by more than {percent(level.furthest)} from the mean."


def _verdict_of_scheme(scheme: SchemeFigures) -> str:
    deepest = scheme.paths[-1]
    found = (
        f"All levels together form {deepest.buckets:,} directories with {deepest.mean:,.1f} members on average. The standard "
        f"deviation is {deepest.deviation:,.1f}; that of a random distribution is {deepest.uniform:,.1f}."
    )
    if deepest.p >= _UNLIKELY:
        return f"{found} The levels are independent."
    if all(level.p >= _UNLIKELY for level in scheme.levels):
        return f"{found} Each level is even, but the levels are correlated."
    return f"{found} The fullest directory has {deepest.fullest:,} members, and {deepest.empty:,} are empty."


def hot_range_text(mapping: MappingFigures) -> str:
    """Describe the cost of relieving the hottest server in the mapping scheme: moved ranges, and a second lookup per request."""
    hottest = f"The hottest server has {max(mapping.heat):.2f} times the mean activity"
    if not mapping.moved_ranges:
        reason = "no range needs to move" if mapping.reached else "no range fits on another server"
        return f"{hottest}, and {reason}: a request looks up only the number of its member."
    many = "range" if mapping.moved_ranges == 1 else "ranges"
    return (
        f"{hottest}, and {mapping.heat_after:.2f} times after {mapping.moved_ranges:,} {many} with {mapping.moved_members:,} "
        f"members moved. n mod {mapping.servers} no longer locates every range, so each request looks up the number "
        "of its member and then the server of the range: a double look-up."
    )
