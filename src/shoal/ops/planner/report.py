"""A plan as one HTML file: sentences, tables and plots, with nothing to load from elsewhere."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from shoal.charts.shapes import Chart
from shoal.charts.surfaces import as_svg
from shoal.ops.planner.calibration import Calibration
from shoal.ops.planner.drawing import charts
from shoal.ops.planner.plan import Plan
from shoal.ops.planner.tables import WordTable, assumptions, summary, tables

_STYLE = """
:root{color-scheme:light dark;--page:#fbfdfd;--panel:#f0f5f5;--ink:#12292d;--soft:#556b6f;--line:#b4c4c6}
@media(prefers-color-scheme:dark){:root{--page:#0f191b;--panel:#182528;--ink:#e6eff0;--soft:#93a9ad;--line:#3b5054}}
body{margin:0 auto;max-width:60rem;padding:1.5rem;background:var(--page);color:var(--ink);
font:1rem/1.5 'Avenir Next','Segoe UI',Roboto,'Noto Sans',system-ui,sans-serif}
h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2rem}p.soft,caption{color:var(--soft)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.35rem .6rem;border-bottom:1px solid var(--line);text-align:right;vertical-align:top}
th:first-child,td:first-child{text-align:left}th{font-weight:600;color:var(--soft)}
img{width:100%;height:auto;margin:1rem 0}.wide{overflow-x:auto}
"""


def page(plan: Plan, calibration: Calibration, *, ours: bool) -> str:
    """Return the report. `ours` says whether the costs were measured on the machine where the plan is made."""
    title = f"A plan for {plan.load.members:,.0f} members"
    where = "" if ours else " Another machine: `shoal plan --calibrate` measures this one."
    sentences = [*summary(plan), f"Costs were measured on {plan.calibration}.{where}"]
    return document(title, sentences, [*tables(plan), assumptions(plan)], charts(plan, calibration))


def document(title: str, sentences: Sequence[str], all_tables: Iterable[WordTable], drawn: Iterable[Chart]) -> str:
    """Return sentences, plots and tables as an HTML document."""
    parts = [f"<h1>{escape(title)}</h1>", *(f"<p>{escape(sentence)}</p>" for sentence in sentences)]
    parts += [_picture(chart) for chart in drawn]
    parts += [part for table in all_tables if table.rows for part in _table(table)]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _picture(chart: Chart) -> str:
    data = b64encode(as_svg(chart)).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(f"{chart.title}. {chart.description}")}">'


def _table(table: WordTable) -> Iterator[str]:
    yield f'<h2>{escape(table.title)}</h2><div class="wide"><table><thead>{_row("th", table.columns)}</thead><tbody>'
    yield from (_row("td", row) for row in table.rows)
    yield "</tbody></table></div>"


def _row(kind: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"
