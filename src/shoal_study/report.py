"""The report of a study: tables and plots in one self-contained HTML file, for light and dark mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape

from shoal_study.constraints import EVEN
from shoal_study.paper import COMPARISON_HEADINGS, GRAPHS, NAMES, TITLE, comparison_cells, fullest_text, ratio_text
from shoal_study.plots import cooling_plot, level_plot, mapping_plot, moving_plot
from shoal_study.statistics import (
    Change,
    Constraint,
    Cooling,
    LevelFigures,
    MappingFigures,
    Outcome,
    PaperComparison,
    SchemeFigures,
    ServerFigures,
    StudyResult,
    shown_probability,
)

STYLE = """
:root{color-scheme:light dark;--page:#fbfdfd;--panel:#f0f5f5;--ink:#12292d;--soft:#556b6f;--line:#cfdadb;
--accent:#0a6a74;--warm:#c2512f;--cool:#8a6fb0;--band:#dcebea;--yes:#2f7a5b;--no:#b8452c}
@media(prefers-color-scheme:dark){:root{--page:#0f191b;--panel:#172427;--ink:#e6eff0;--soft:#9db2b5;--line:#2f4347;
--accent:#5fcad6;--warm:#f79d80;--cool:#bda4e6;--band:#1f3639;--yes:#82d3ad;--no:#f79d80}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.55 'Avenir Next','Segoe UI',Roboto,'Noto Sans',system-ui,sans-serif;
font-variant-numeric:tabular-nums;-webkit-text-size-adjust:100%}
main{max-width:1200px;margin:0 auto;padding:40px 24px 80px}
h1{font-size:clamp(1.7rem,4vw,2.5rem);line-height:1.15;margin:0 0 8px;letter-spacing:-.01em}
h2{font-size:1.4rem;margin:64px 0 4px;letter-spacing:-.005em}
h3{font-size:1.02rem;margin:0}
p{max-width:74ch;margin:8px 0}
.lead{color:var(--soft);font-size:1.06rem}
.soft{color:var(--soft)}
a{color:var(--accent)}
code{font:.92em ui-monospace,'SF Mono',Menlo,Consolas,monospace;background:var(--panel);padding:.1em .35em;border-radius:5px;
overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(210px,1fr));gap:16px;margin:28px 0}
.tile,.card{background:var(--panel);border-radius:14px;padding:18px 20px}
.tile b{display:block;font-size:1.8rem;line-height:1.2;font-weight:650;letter-spacing:-.01em}
.tile span{color:var(--soft);font-size:.92rem;display:block}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,350px),1fr));gap:20px;margin-top:20px}
.pair{grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr))}
.split{display:grid;grid-template-columns:minmax(0,430px) minmax(0,1fr);gap:20px;align-items:start;margin-top:20px}
.split .wide{margin-top:0}.split th{white-space:normal}.split p:first-child{margin-top:0}
@media(max-width:900px){.split{grid-template-columns:minmax(0,1fr)}}
h3.scheme{font-size:1.12rem;margin:36px 0 2px}
.under{display:block;font-size:.82rem;color:var(--soft)}
.card p{font-size:.93rem;color:var(--soft);margin:2px 0 10px}
.card svg{display:block;width:100%;height:auto;margin:6px 0}
.wide{overflow-x:auto;margin-top:16px;border-radius:14px;background:var(--panel);padding:6px 8px}
table{border-collapse:separate;border-spacing:0;width:100%;font-size:.84rem}
th,td{padding:6px 7px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}
tr:last-child td{border-bottom:0}
th{color:var(--soft);font-weight:500;vertical-align:bottom}
th:first-child,td:first-child,.text{text-align:left}
.group td{font-weight:650;padding-top:16px}
.long{white-space:normal;min-width:20ch}
.card table{font-size:.86rem;margin-top:4px}
.card th,.card td{padding:4px 6px}
.card td.soft{white-space:normal}
.yes,.no{font-weight:650}.yes{color:var(--yes)}.no{color:var(--no)}
.verdict{display:block;font-size:.84rem;color:var(--soft);font-weight:400;white-space:normal;min-width:19ch;line-height:1.35}
.card h3,.card p{overflow-wrap:anywhere}
.wide th:first-child,.wide td:first-child{position:sticky;left:0;background:var(--panel)}
@media(max-width:700px){.constraints table,.constraints tbody,.constraints tr,.constraints td{display:block}
.constraints tr:first-child{display:none}.constraints tr{border-bottom:1px solid var(--line)}.constraints td{border:0}
.constraints td[data-scheme]::before{content:attr(data-scheme) ": "}}
.constraints td{vertical-align:top;text-align:left}.constraints th{text-align:left}
.key{display:flex;flex-wrap:wrap;gap:6px 20px;font-size:.9rem;color:var(--soft);margin:12px 0 0;padding:0;list-style:none}
.key i{display:inline-block;width:14px;height:10px;border-radius:3px;margin-right:7px;vertical-align:baseline}
svg text{font:12px 'Avenir Next','Segoe UI',Roboto,'Noto Sans',system-ui,sans-serif;stroke:none}
svg text.small{font-size:10.5px}
svg rect{stroke:none}svg line,svg polyline{fill:none;stroke-width:1.2}svg polyline{stroke-width:2.2;stroke-linejoin:round}
.dashed{stroke-dasharray:5 4}
""" + "".join(
    f"svg rect.{name},svg text.{name},svg circle.{name}{{fill:var(--{name})}}"
    f"svg line.{name},svg polyline.{name}{{stroke:var(--{name})}}\n"
    for name in ("accent", "warm", "cool", "ink", "soft", "line", "band")
)


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


def level_table(result: StudyResult) -> str:
    rows: list[str] = []
    for scheme in result.schemes:
        named = f"{escape(scheme.title)}, {scheme.nanoseconds:,.0f} ns a name"
        rows.append(f'<tr class="group"><td colspan="{len(LEVEL_COLUMNS) + 1}">{named}</td></tr>')
        rows += [
            _row((f"{level.graph} {level.name}".strip(), *(cell(level) for cell in LEVEL_COLUMNS.values())))
            for level in quantities(scheme)
        ]
    return _wide(("level", *LEVEL_COLUMNS), rows)


def graph_table(level: LevelFigures, compared: PaperComparison | None) -> str:
    """Return a table of the measured figures of a graph and, if the paper has this graph, the printed ones."""
    rows = [_row(("this list", f"{level.mean:,.2f}", f"{level.deviation:,.2f}", ratio_text(level.relative)))]
    if compared:
        rows.append(_row(("the paper", *comparison_cells(compared)[1:4])))
    return f"<table>{_head(('', 'mean', 'deviation', 'ratio'))}{''.join(rows)}</table>"


def paper_table(result: StudyResult) -> str:
    rows = [_row(comparison_cells(each)) for each in result.paper]
    groups = '<tr><th></th><th colspan="4">the paper</th><th colspan="4">this list</th></tr>'
    return f'<div class="wide"><table>{groups}{_head(COMPARISON_HEADINGS)}{"".join(rows)}</table></div>'


def server_table(found: Sequence[ServerFigures], unavailable: Sequence[str], needs: str) -> str:
    """Return a table of how evenly each scheme fills the servers, and how many members move if servers are added or removed.

    Schemes that are `unavailable` get a row with the package that they need.
    """
    changes = [_change_heading(each) for each in found[0].changes]
    head = (f"{found[0].servers.buckets} servers", "of mean", "fullest", "hottest", "ns", *changes)
    rows = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in _server_cells(each)) + "</tr>" for each in found]
    words = f"needs the package {escape(needs)}"
    rows += [f'<tr><td>{escape(title)}</td><td colspan="{len(head) - 1}">{words}</td></tr>' for title in unavailable]
    return _wide(head, rows)


def _change_heading(change: Change) -> str:
    added = change.after - change.before
    return f"{abs(added)} {'added' if added > 0 else 'removed'}"


def _server_cells(each: ServerFigures) -> Iterator[str]:
    level = each.servers
    yield escape(each.title)
    yield percent(level.relative)
    yield f"{level.fullest / level.mean:.2f} x"
    yield f"{level.hottest:.2f} x" if level.hottest else ""
    yield f"{each.nanoseconds:,.0f}"
    for change in each.changes:
        yield f'{change.moved:,}<span class="under">{change.moved / change.least:.2f} x</span>'


def cooling_table(found: Sequence[Cooling]) -> str:
    head = ("scheme", "unit of a move", "servers", "before", "after", "units moved", "members moved", "activity moved")
    rows = [
        _row(
            (
                each.title,
                each.unit,
                str(each.servers),
                f"{each.before:.2f} x",
                f"{each.after:.2f} x" + ("" if each.reached else " !"),
                f"{each.units:,}",
                f"{each.members:,}",
                f"{each.moved_activity:.1%}",
            )
        )
        for each in found
    ]
    return _wide(head, rows)


def constraint_table(found: Sequence[Constraint], titles: dict[str, str]) -> str:
    head = ("constraint", *(titles.get(outcome.scheme, outcome.scheme) for outcome in found[0].outcomes))
    rows = ""
    for each in found:
        promise = f"{escape(each.promise)}. Checked: {escape(each.check)}."
        cells = "".join(_outcome_cell(outcome, titles) for outcome in each.outcomes)
        name = f'<b>{f"{each.number}. " if each.number else ""}{escape(each.name)}</b><span class="verdict">{promise}</span>'
        rows += f'<tr><td class="long">{name}</td>{cells}</tr>'
    return f'<div class="wide constraints"><table>{_head(head)}{rows}</table></div>'


def _outcome_cell(outcome: Outcome, titles: dict[str, str]) -> str:
    scheme = escape(titles.get(outcome.scheme, outcome.scheme))
    kind, text = {True: ("yes", "met"), False: ("no", "not met"), None: ("soft", "not decided")}[outcome.met]
    return (
        f'<td data-scheme="{scheme}"><span class="{kind}">{text}</span>'
        f'<span class="verdict">{escape(outcome.words)}</span></td>'
    )


def _wide(head: Iterable[str], rows: Iterable[str]) -> str:
    return f'<div class="wide"><table>{_head(head)}{"".join(rows)}</table></div>'


def _head(cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in cells) + "</tr>"


def _row(cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


_MIB = 1 << 20
_UNLIKELY = 0.001
"""Below this probability, a distribution is not considered random."""
_KEY = (
    '<ul class="key"><li><i style="background:var(--accent)"></i>bucket within 10 % of the mean</li>'
    '<li><i style="background:var(--warm)"></i>bucket further from the mean</li>'
    '<li><i style="background:var(--band)"></i>range within 10 % of the mean</li>'
    '<li><i style="background:var(--cool)"></i>uniform random distribution</li></ul>'
)


def report_page(result: StudyResult) -> str:
    parts = (
        f"<h1>Placement study</h1><p class='lead'>{result.names:,} names from {escape(result.source)}, placed by the schemes of "
        f"{escape(TITLE)}, and by later ones. The page contains counts of members in buckets and no names.</p>",
        _tiles(result),
        _graphs(result),
        _paper(result),
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


def _tiles(result: StudyResult) -> str:
    tiles = "".join(
        f'<div class="tile"><b>{escape(large)}</b><span>{escape(small)}</span></div>'
        for large, small in _tile_texts(result)
    )
    return tiles and f'<div class="tiles">{tiles}</div>'


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


def _graphs(result: StudyResult) -> str:
    compared = {each.graph: each for each in result.paper}
    shown = "".join(_scheme_graphs(scheme, compared) for scheme in result.schemes)
    if not shown:
        return ""
    return (
        "<h2>The graphs of the paper</h2><p class='soft'>D2, D3, N2, M2 and M3 show the directories of several levels, as in the "
        "paper; the single levels follow. A bar is a bucket, or, in a graph with more than 256 buckets, the range from the "
        "emptiest to the fullest of adjacent buckets. The curve below the bars is straight if all buckets are equally full.</p>"
        + _KEY
        + shown
    )


def _scheme_graphs(scheme: SchemeFigures, compared: Mapping[str, PaperComparison]) -> str:
    cards = "".join(
        f'<figure class="card" id="{level.graph or level.name.split(":")[0].replace(" ", "-")}" style="margin:0">'
        f"<h3>{escape(_heading(level))}</h3><p>{escape(_verdict_of_level(level))}</p>{level_plot(level)}"
        f"{graph_table(level, compared.get(level.graph))}</figure>"
        for level in quantities(scheme)
    )
    together = f"<p class='soft'>{escape(_verdict_of_scheme(scheme))}</p>"
    return f'<h3 class="scheme">{escape(scheme.title)}</h3>{together}<div class="cards">{cards}</div>'


def _heading(level: LevelFigures) -> str:
    return f"{level.graph}: {GRAPHS[level.graph].shows}" if level.graph else f"{level.name}, a single level"


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


def _paper(result: StudyResult) -> str:
    if not result.paper:
        return ""
    fullest = "".join(f"<p>{escape(text)}</p>" for each in result.paper if (text := fullest_text(each, result.names)))
    return (
        f"<h2>The paper and this list</h2><p class='soft'>The paper studied {NAMES:,} names; this list has {result.names:,}. The "
        "ratio of deviation to mean of a skewed scheme does not depend on the number of names, so the ratios are comparable. The "
        "ratio of a random distribution shrinks with the square root of that number and is in the next column.</p>"
        + paper_table(result)
        + fullest
    )


def _levels(result: StudyResult) -> str:
    if not result.schemes:
        return ""
    return (
        "<h2>Evenness</h2><p class='soft'><i>Deviation</i> is the population standard deviation of the bucket sizes, and "
        "<i>random</i> is that of a uniform random distribution. <i>p</i> is the probability that a random distribution has at "
        "least this chi-square. <i>Furthest</i> is the largest distance of a bucket from the mean, divided by the mean. "
        "<i>Hottest</i> is the most active bucket and its activity as a multiple of the mean, followed by the number of its "
        f"members. Activity: {escape(result.activity)}.</p>" + level_table(result)
    )


def _servers(result: StudyResult) -> str:
    if not result.servers:
        return ""
    return (
        f"<h2>Adding and removing servers</h2><p class='soft'>Members on {result.servers[0].servers.buckets} servers. When a "
        "server is added, members should move to it from all others, and none should move between the others. Shoal's map moves "
        "whole data sources, 64 in total, so its stores are equally full if their number divides 64. The table shows the "
        "deviation divided by the mean, the fullest and the hottest server as multiples of the mean, the time to place a name in "
        "nanoseconds, and the number of members that move, also as a multiple of the minimum.</p>"
        f'<div class="split"><div class="card"><h3>Members that move when a server is added</h3>{moving_plot(result.servers)}</div>'
        f"{server_table(result.servers, result.unavailable, result.needs)}</div>"
    )


def _mapping(mapping: MappingFigures | None) -> str:
    if mapping is None:
        return ""
    hot = f"<p>{escape(hot_range_text(mapping))}</p>" if mapping.heat else ""
    return (
        f"<h2>Simulation of the mapping scheme</h2><div class='split'><div class='card'>{mapping_plot(mapping)}</div><div><p>"
        f"A counter numbers members as they sign up. A range of {mapping.range_size:,} numbers is a bucket, and range n is on "
        f"server n mod {mapping.servers}. With {mapping.ranges:,} ranges, servers have {min(mapping.members):,} to "
        f"{max(mapping.members):,} members; {mapping.idle} servers are idle.</p>"
        f"<p>At {mapping.next_count:,} members, just before the current range is full, servers have "
        f"{min(mapping.next_members):,} to {max(mapping.next_members):,} members. {mapping.newest:.0%} of the newest hundredth of "
        f"all members are in one range.</p>{hot}</div></div>"
    )


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


def _cooling(result: StudyResult) -> str:
    if not result.cooling:
        return ""
    return (
        f"<h2>Cost of relieving a hot server</h2><p class='soft'>Activity: {escape(result.activity)}. The goal is that no server "
        f"has more than {result.cooling[0].bound:g} times the mean activity. Each scheme moves its smallest units, those with the "
        "most activity per member first; a scheme without such units adds a server. An exclamation mark means that the goal is "
        "not reached.</p>"
        '<ul class="key"><li><i style="background:var(--cool)"></i>before</li>'
        '<li><i style="background:var(--accent)"></i>after, goal reached</li>'
        '<li><i style="background:var(--warm)"></i>after, goal not reached</li></ul>'
        f'<div class="split"><div class="card"><h3>Activity of the hottest server</h3>{cooling_plot(result.cooling)}</div>'
        f"{cooling_table(result.cooling)}</div>"
    )


def _constraints(result: StudyResult) -> str:
    if not result.constraints or not result.constraints[0].outcomes:
        return ""
    titles = {scheme.key: scheme.title for scheme in result.schemes} | {"mapping": "Mapping", "shoal": "Shoal's map"}
    return (
        "<h2>Seven constraints</h2><p class='soft'>The numbered constraints of section 1.1 of the paper, and three requirements "
        "from its text. Each check ran on these names or on the conformance file.</p>"
        + constraint_table(result.constraints, titles)
    )


def _errata(result: StudyResult) -> str:
    if not result.errata:
        return ""
    items = "".join(
        f'<div class="card"><h3>{escape(each.claim)}</h3><p>{escape(each.proof)}</p>'
        f'<span class="{"yes" if each.holds else "no"}">{"proved in this run" if each.holds else "not proved"}</span></div>'
        for each in result.errata
    )
    return f'<h2>Errors of the paper</h2><div class="cards pair">{items}</div>'


def _method(result: StudyResult) -> str:
    return (
        "<h2>Method</h2><p>"
        f"Shoal {escape(result.version)}: {result.seconds:,.2f} s for {result.names:,} names, "
        f"{result.processor_seconds:,.2f} s of processor time including the start of the program, and at most "
        f"{result.peak_bytes / _MIB:,.0f} MiB of memory. Names are read in chunks and hashed in batches; {result.checked:,} of "
        "them were also placed by the server's own code, with equal results. Nanoseconds are the processor time of placing a name, "
        "without reading and counting it.</p>"
        "<p class='soft'><code>shoal placement study NAMES --report FILE</code> writes this page for any list of names.</p>"
    )
