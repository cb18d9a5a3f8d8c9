"""How the public pages look: one style sheet, light and dark, without a script or a font to load."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #17292d; --soft: #5d7478; --line: #dfe8e9; --page: #f3f7f7; --card: #fff; --sea: #14737f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4eeef; --soft: #93a9ad; --line: #24383c; --page: #0e181a; --card: #15262a; --sea: #62c2cd; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); overflow-wrap: anywhere; }
body { font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 640px; margin: 0 auto; padding: 16px 12px 64px; }
a { color: var(--sea); text-decoration: none; }
a:hover { text-decoration: underline; }
header, article { background: var(--card); border: 1px solid var(--line); border-radius: 14px; margin-bottom: 14px; }
header { padding: 0 20px 14px; overflow: hidden; }
header.plain { padding-top: 14px; }
header h1 { margin: 8px 0 0; font-size: 1.6rem; line-height: 1.2; }
.banner { display: block; width: calc(100% + 40px); margin: 0 -20px; aspect-ratio: 3; object-fit: cover; background: var(--line); }
header .face { width: 96px; height: 96px; margin-top: -48px; position: relative; }
header .face { border: 4px solid var(--card); border-radius: 24px; }
.handle, .when, .numbers, .sharer, .empty { color: var(--soft); }
header .handle { margin: 0 0 8px; }
.numbers { margin: 12px 0 0; font-size: .85rem; word-spacing: .1em; }
.alike { margin: 6px 0 0; color: var(--soft); word-spacing: .2em; }
.numbers b { color: var(--ink); font-weight: 600; margin-left: .9em; }
.numbers b:first-child { margin-left: 0; }
article { padding: 14px 18px 14px 78px; position: relative; }
article > .face { position: absolute; left: 18px; top: 16px; width: 46px; height: 46px; border-radius: 12px; }
article p { margin: 6px 0; }
.who { margin: 0 !important; line-height: 1.35; display: flex; flex-wrap: wrap; gap: 0 6px; align-items: baseline; }
.who > a:first-child { color: var(--ink); font-weight: 600; }
.who > a:first-child, .who > .handle { max-width: 100%; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.when { margin-left: auto; font-size: .82rem; }
.answer { color: var(--soft); font-size: .82rem; margin: 0 !important; }
@media (max-width: 480px) { .when { margin-left: 0; flex-basis: 100%; } }
.sharer { margin: 0 0 4px !important; font-size: .82rem; }
.sharer ~ .face { top: 40px; }
.invisible { font-size: 0; }
.ellipsis::after { content: "\\2026"; }
.pictures { display: grid; gap: 4px; grid-template-columns: repeat(auto-fit, minmax(40%, 1fr)); }
.pictures { margin: 10px 0 4px; border-radius: 12px; overflow: hidden; }
.pictures img:last-child:nth-child(odd) { grid-column: 1 / -1; }
.pictures img { width: 100%; height: auto; aspect-ratio: 3 / 2; object-fit: cover; display: block; background: var(--line); }
code { background: var(--page); padding: 2px 6px; border-radius: 6px; }
.empty { text-align: center; padding: 40px; }
""".lstrip()
