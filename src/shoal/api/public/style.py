"""How the public pages look: one style sheet, light and dark, without a script or a font to load."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #17292d; --soft: #5d7478; --line: #dfe8e9; --page: #f3f7f7; --card: #fff; --sea: #14737f; }
:root { --edge: #a9bcbf; --bad: #b3372c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4eeef; --soft: #93a9ad; --line: #24383c; --page: #0e181a; --card: #15262a; --sea: #62c2cd; }
  :root { --edge: #4a6469; --bad: #ff8a7a; }
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
article.whole { padding: 14px 20px; }
article.whole h2 { margin: 0; font-size: 1.1rem; }
article.whole ul { margin: 12px 0 4px; padding-left: 1.2em; }
.recipe { width: 100%; border-collapse: collapse; }
.recipe caption { text-align: left; font-weight: 600; padding-bottom: 6px; }
.recipe th { text-align: left; font-weight: 400; padding: 3px 12px 3px 0; }
.recipe td { padding: 3px 0 3px 8px; white-space: nowrap; }
.recipe td:nth-child(3) { text-align: right; font-variant-numeric: tabular-nums; }
.recipe small { color: var(--soft); }
.recipe meter { width: 100%; min-width: 80px; height: 14px; display: block; }
.recipe meter::-webkit-meter-bar { background: var(--line); border: 0; }
.recipe meter::-webkit-meter-optimum-value { background: var(--sea); }
.recipe meter::-moz-meter-bar { background: var(--sea); }
.recipe meter.below { opacity: .5; }
.link { display: block; padding: 8px 10px; font-size: .82rem; }
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
.card { background: var(--card); border: 1px solid var(--line); border-radius: 18px; max-width: 440px; margin: 6vh auto 0; }
.card { padding: 28px 28px 24px; box-shadow: 0 12px 32px rgb(0 0 0 / 7%); }
.card h1 { font-size: 1.35rem; line-height: 1.3; margin: 0 0 6px; font-weight: 600; }
.card p { margin: 0 0 14px; }
.app { display: flex; align-items: center; gap: 12px; color: var(--soft); }
.mark { width: 52px; height: 52px; border-radius: 15px; background: var(--sea); color: var(--card); flex: none; }
.mark { display: grid; place-items: center; font-size: 1.5rem; font-weight: 700; }
.card label { display: block; font-weight: 600; font-size: .9rem; margin: 14px 0 4px; }
.card input:not([type=hidden]) { width: 100%; padding: 11px 13px; font: inherit; color: inherit; border-radius: 11px; }
.card input:not([type=hidden]) { background: var(--page); border: 1px solid var(--edge); }
.card :focus-visible { outline: 3px solid color-mix(in srgb, var(--sea) 55%, transparent); outline-offset: 1px; }
.choices { display: flex; gap: 10px; margin: 20px 0 16px; }
.card button { font: inherit; font-weight: 600; padding: 11px 16px; border-radius: 11px; cursor: pointer; }
.card button { border: 1px solid var(--sea); background: var(--sea); color: var(--card); flex: 1; }
.card button:hover { filter: brightness(1.08); }
.card button.quiet { background: none; color: inherit; border-color: var(--edge); }
.card button.link { background: none; border: 0; padding: 4px 0; color: var(--sea); font-weight: 400; }
.card button.link:hover { text-decoration: underline; }
.you { display: flex; align-items: center; gap: 12px; padding: 10px 12px; background: var(--page); border-radius: 12px; }
.you { margin-top: 14px !important; line-height: 1.35; }
.you img { width: 44px; height: 44px; border-radius: 12px; object-fit: cover; flex: none; }
.permissions { margin: -6px 0 14px; padding-left: 20px; }
.permissions li { margin: 4px 0; }
.fine { color: var(--soft); font-size: .87rem; }
.wrong { border-left: 4px solid var(--bad); background: color-mix(in srgb, var(--bad) 10%, transparent); }
.wrong { padding: 9px 12px; border-radius: 8px; margin-top: 12px !important; }
.code { display: block; padding: 14px 8px; font-size: .8rem; text-align: center; user-select: all; border-radius: 11px; }
.card form { margin: 0; }
""".lstrip()
