"""The style of a report: one sheet, light and dark, wide and narrow, with the fonts of the reader's own machine."""

from __future__ import annotations

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
.beside{display:grid;grid-template-columns:minmax(0,430px) minmax(0,1fr);gap:20px;align-items:start;margin-top:20px}
.beside .wide{margin-top:0}.beside p:first-child{margin-top:0}
@media(max-width:900px){.beside{grid-template-columns:minmax(0,1fr)}}
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
