"""The page of a study: plots and tables in one file, which can be kept, sent and put on a web server as it is."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from shoal.study.constraints import EVEN
from shoal.study.levels import LevelFigures
from shoal.study.paper import GRAPHS, NOT_LEGIBLE, TITLE
from shoal.study.report.charts import cooling_plot, mapping_plot, moving_plot
from shoal.study.report.graphs import level_plot
from shoal.study.report.style import STYLE
from shoal.study.report.tables import (
    constraint_table,
    cooling_table,
    graph_table,
    level_table,
    percent,
    server_table,
)
from shoal.study.results import MappingFigures, SchemeFigures, StudyResult

_MIB = 1 << 20
_UNLIKELY = 0.001
"""A probability below which a spread is not put down to chance."""
_KEY = (
    '<ul class="key"><li><i style="background:var(--accent)"></i>a bucket within 10 % of the mean</li>'
    '<li><i style="background:var(--warm)"></i>further away</li>'
    '<li><i style="background:var(--band)"></i>10 % around the mean</li>'
    '<li><i style="background:var(--cool)"></i>what chance alone gives</li></ul>'
)


def report_page(result: StudyResult) -> str:
    """Return a whole HTML document that loads nothing."""
    parts = (
        _opening(result),
        _tiles(result),
        _graphs(result),
        _levels(result),
        _servers(result),
        _mapping(result.mapping),
        _cooling(result),
        _constraints(result),
        _errata(result),
        _method(result),
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Placement study: {result.names:,} names</title><style>{STYLE}</style></head><body><main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main></body></html>\n"
    )


def _opening(result: StudyResult) -> str:
    return (
        f"<h1>Placement study</h1><p class='lead'>{result.names:,} names from {escape(result.source)}, placed by the schemes of "
        f"{escape(TITLE)}, and by those that came after it. Everything here is a count of members in buckets.</p>"
    )


def _tiles(result: StudyResult) -> str:
    tiles = list(_tile_texts(result))
    if not tiles:
        return ""
    return (
        '<div class="tiles">'
        + "".join(
            f'<div class="tile"><b>{escape(large)}</b><span>{escape(small)}</span></div>' for large, small in tiles
        )
        + "</div>"
    )


def _tile_texts(result: StudyResult) -> Iterator[tuple[str, str]]:
    schemes = {scheme.key: scheme for scheme in result.schemes}
    if "letters" in schemes:
        worst = max(schemes["letters"].levels, key=lambda level: level.fullest / max(level.mean, 1))
        yield (
            f"{worst.fullest / max(worst.mean, 1):.1f} x",
            f"letters: so many times the mean are in the fullest bucket ({worst.name})",
        )
    if "md5" in schemes:
        md5 = schemes["md5"]
        yield (
            percent(max(level.furthest for level in md5.levels)),
            "MD5: no bucket of any level is further from the mean",
        )
        yield (
            f"{md5.nanoseconds:,.0f} ns",
            f"to place a name by MD5; a bare loop over hashlib takes {result.bare_loop.nanoseconds:,.0f} ns",
        )
    moved = {each.key: each.changes[0].moved / max(each.servers.members, 1) for each in result.servers}
    if {"modulo", "shoal"} <= moved.keys():
        yield (
            f"{moved['shoal']:.1%}",
            f"of the members move by Shoal's map when a server comes; {moved['modulo']:.1%} by the hash modulo",
        )


def _graphs(result: StudyResult) -> str:
    shown = "".join(map(_scheme_graphs, result.schemes))
    if not shown:
        return ""
    return (
        "<h2>The graphs of the paper</h2><p class='soft'>A bar is a bucket of one level. The curve below it is about the "
        "directories down to that level: a straight line means that all are equally full.</p>" + _KEY + shown
    )


def _scheme_graphs(scheme: SchemeFigures) -> str:
    cards = "".join(
        f'<figure class="card" id="{level.graph}" style="margin:0"><h3>{level.graph}: {escape(GRAPHS[level.graph].shows)}</h3>'
        f"<p>{escape(_judged(level))}</p>{level_plot(level, path)}{graph_table(level)}</figure>"
        for level, path in zip(scheme.levels, scheme.paths, strict=True)
    )
    together = f"<p class='soft'>{escape(_judged_together(scheme))}</p>"
    return f'<h3 class="scheme">{escape(scheme.title)}</h3>{together}<div class="cards">{cards}</div>'


def _judged(level: LevelFigures) -> str:
    """One sentence on a plot."""
    if level.furthest > EVEN:
        mean = max(level.mean, 1)
        empty = f"; {level.empty} are empty" if level.empty else ""
        return (
            f"Uneven: bucket {level.fullest_bucket} has {level.fullest / mean:.1f} times the mean, and bucket "
            f"{level.emptiest_bucket} only {level.emptiest / mean:.2f} times{empty}."
        )
    as_chance = level.p >= _UNLIKELY
    chance = f"as chance spreads them (p = {level.p:.2f})" if as_chance else "less evenly than by chance"
    return f"Even: no bucket is more than {percent(level.furthest)} from the mean, {chance}."


def _judged_together(scheme: SchemeFigures) -> str:
    """One sentence on the levels of a scheme together."""
    deepest = scheme.paths[-1]
    found = (
        f"All levels together make {deepest.buckets:,} directories of {deepest.mean:,.1f} members on average. They deviate by "
        f"{deepest.deviation:,.1f}; chance gives {deepest.uniform:,.1f}."
    )
    if deepest.p >= _UNLIKELY:
        return f"{found} The levels know nothing of each other."
    if all(level.p >= _UNLIKELY for level in scheme.levels):
        return f"{found} Each level is even, but they go together: a bucket of one says something about the other."
    return f"{found} The fullest directory has {deepest.fullest:,} members, and {deepest.empty:,} are empty."


def _levels(result: StudyResult) -> str:
    if not result.schemes:
        return ""
    return (
        "<h2>How evenly</h2><p class='soft'>Deviation is the population standard deviation of the bucket sizes; by chance is "
        "what it would be if every member went to any bucket alike; p is the probability that chance gives at least this "
        "chi-square. Buckets that nobody is in count as empty. Hottest is the most active bucket, in times of the mean, and "
        f"beside it the members who are in it. Activity: {escape(result.activity)}.</p>" + level_table(result)
    )


def _servers(result: StudyResult) -> str:
    if not result.servers:
        return ""
    return (
        f"<h2>Servers that come and go</h2><p class='soft'>Members on {result.servers[0].servers.buckets} servers. When one "
        "comes, each of the others should give a little, and nobody should move between old ones. Shoal's map moves whole data "
        "sources, 64 in all, so its stores are equally full where their number divides 64. In the table: the deviation over the "
        "mean, the fullest and the most active server in times of the mean, who moves when servers come or go, and how many times "
        "the least possible that is.</p>"
        f'<div class="beside"><div class="card"><h3>Who moves when one server comes</h3>{moving_plot(result.servers)}</div>'
        f"{server_table(result.servers, result.unavailable, result.needs)}</div>"
    )


def _mapping(mapping: MappingFigures | None) -> str:
    if mapping is None:
        return ""
    return (
        f"<h2>The mapping scheme, simulated</h2><div class='beside'><div class='card'>{mapping_plot(mapping)}</div><div><p>"
        f"A counter numbers members as they sign up. A range of {mapping.range_size:,} numbers is a bucket, and a bucket is on "
        f"one server. So growing from {mapping.start} servers moves nobody, and all full servers have equally many members.</p>"
        f"<p>But {mapping.newest:.0%} of the newest hundredth of all members are on one server, and whoever is active stays "
        f"where they are until somebody moves them. {_exceptions(mapping)}</p>"
        f"<p class='soft'>The sizes of the paper's ranges are {NOT_LEGIBLE}. Here a range is as large as {mapping.grown} "
        "servers need, or as <code>--range</code> says.</p></div></div>"
    )


def _exceptions(mapping: MappingFigures) -> str:
    if not mapping.exceptions:
        return f"Here nothing is so hot that it must be moved: a request takes {mapping.lookups:.3f} look-ups, the others none."
    moved = f"{mapping.exceptions:,} member{' is' if mapping.exceptions == 1 else 's are'} moved here"
    return (
        f"{moved}, each with an entry of its own. That is the double look-up: a request finds the number and its range, and "
        f"for {mapping.lookups - 1:.1%} of all activity it looks again. {mapping.lookups:.3f} look-ups a request, where the "
        "other schemes need none."
    )


def _cooling(result: StudyResult) -> str:
    if not result.cooling:
        return ""
    return (
        f"<h2>What a hot server costs</h2><p class='soft'>Activity: {escape(result.activity)}. The goal is that no server has "
        f"more than {result.cooling[0].bound:g} times the mean activity. Each scheme moves the smallest part that it can move by "
        "itself, the one that carries most activity for each member first; a scheme without parts gets another server. An "
        "exclamation mark: the goal is not reached.</p>"
        '<ul class="key"><li><i style="background:var(--cool)"></i>the hottest server as it is</li>'
        '<li><i style="background:var(--accent)"></i>afterwards, at the goal</li>'
        '<li><i style="background:var(--warm)"></i>afterwards, not there</li></ul>'
        f'<div class="beside"><div class="card"><h3>The hottest server, before and after</h3>{cooling_plot(result.cooling)}</div>'
        f"{cooling_table(result.cooling)}</div>"
    )


def _constraints(result: StudyResult) -> str:
    if not result.constraints or not result.constraints[0].outcomes:
        return ""
    titles = {scheme.key: scheme.title for scheme in result.schemes} | {"mapping": "Mapping", "md5": "MD5, Shoal's map"}
    return (
        f"<h2>Seven constraints</h2><p class='soft'>The paper has seven; their wording is {NOT_LEGIBLE}. These seven are what "
        "its schemes differ in, in our words. Each check ran on these names.</p>"
        + constraint_table(result.constraints, titles)
    )


def _errata(result: StudyResult) -> str:
    if not result.errata:
        return ""
    items = "".join(
        f'<div class="card"><h3>{escape(each.claim)}</h3><p>{escape(each.proof)}</p>'
        f'<span class="{"yes" if each.holds else "no"}">{"shown again just now" if each.holds else "not shown"}</span></div>'
        for each in result.errata
    )
    return f'<h2>Where the paper errs</h2><div class="cards pair">{items}</div>'


def _method(result: StudyResult) -> str:
    return (
        "<h2>How it was measured</h2><p>"
        f"Shoal {escape(result.version)}; {result.seconds:,.2f} s for {result.names:,} names, "
        f"{result.processor_seconds:,.2f} s of processor time with the start of the program, and at most "
        f"{result.peak_bytes / _MIB:,.0f} MiB of memory. Names are read a piece at a time and hashed in batches; "
        f"{result.checked:,} of them were placed by the server's own code too, and are in the same place. Nanoseconds "
        "are the processor time of placing alone, in this run.</p>"
        "<p class='soft'><code>shoal placement study NAMES --report FILE</code> makes this page of any list of names.</p>"
    )
