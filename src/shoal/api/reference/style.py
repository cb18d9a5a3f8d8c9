"""How the reference page looks, in the colours of the public pages, and the one script that it has."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #17292d; --soft: #5d7478; --line: #dfe8e9; --page: #f3f7f7;
  --card: #fff; --sea: #14737f;
  --code: #eef4f4; --get: #14737f; --post: #2f7d3f; --put: #9a6a0c; --delete: #b23b3b; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4eeef; --soft: #93a9ad; --line: #24383c; --page: #0e181a; --card: #15262a; --sea: #62c2cd;
  --code: #0e1b1e;
    --get: #62c2cd; --post: #7cc98a; --put: #e0b45c; --delete: #f08a8a; }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 16px; }
body { margin: 0; background: var(--page); color: var(--ink); overflow-wrap: anywhere; }
body { font: 15px/1.55 system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
code, pre { font: 13px/1.6 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
a { color: var(--sea); text-decoration: none; }
a:hover { text-decoration: underline; }
:focus-visible { outline: 2px solid var(--sea); outline-offset: 2px; border-radius: 6px; }
.frame { max-width: 1240px; margin: 0 auto; padding: 0 16px 80px; display: grid;
  grid-template-columns: 210px minmax(0, 1fr); gap: 40px; }
nav { position: sticky; top: 0; align-self: start; max-height: 100vh; overflow: auto; padding: 32px 4px 24px; }
.mark { display: block; color: var(--ink); font-weight: 700; font-size: 1.2rem; margin-bottom: 18px; }
.mark b { color: var(--sea); font-weight: 600; font-size: .75rem; letter-spacing: .08em; margin-left: 6px; }
.find input { width: 100%; padding: 8px 12px; margin-bottom: 14px; font: inherit; color: inherit;
  background: var(--card);
  border: 1px solid var(--line); border-radius: 10px; }
nav ul { list-style: none; margin: 0 0 18px; padding: 0; }
nav li { display: flex; justify-content: space-between; align-items: baseline; padding: 3px 0; }
nav li a { color: var(--ink); text-transform: capitalize; }
nav li span { color: var(--soft); font-size: .78rem; font-variant-numeric: tabular-nums; }
.raw { font-size: .85rem; }
main { min-width: 0; padding-top: 28px; }
header { padding: 4px 0 12px; max-width: 760px; }
header h1 { margin: 0 0 12px; font-size: 2.1rem; line-height: 1.15; letter-spacing: -.02em; }
header .over { margin: 0 0 6px; color: var(--sea); font-size: .82rem; font-weight: 600; }
section { margin-top: 44px; }
h2 { margin: 0; font-size: 1.35rem; letter-spacing: -.01em; }
.lead { margin: 2px 0 14px; color: var(--soft); }
h4 { margin: 18px 0 6px; font-size: .74rem; letter-spacing: .07em; text-transform: uppercase;
  color: var(--soft); font-weight: 600; }
.body > div > :first-child { margin-top: 0; }
details { background: var(--card); border: 1px solid var(--line); border-radius: 12px; margin-bottom: 8px; }
details[open] { box-shadow: 0 6px 24px -16px rgb(0 40 50 / .5); }
summary { display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 10px; padding: 10px 16px;
  cursor: pointer; list-style: none; }
summary::-webkit-details-marker { display: none; }
summary:hover .path { color: var(--sea); }
.verb { flex: none; width: 58px; font-size: .7rem; font-weight: 700; letter-spacing: .05em; }
.get { color: var(--get); } .post { color: var(--post); } .put, .patch { color: var(--put);
  } .delete { color: var(--delete); }
.path { font-weight: 600; }
.path em { font-style: normal; color: var(--sea); font-weight: 400; }
.what { flex: 1 1 260px; color: var(--soft); font-size: .88rem; text-align: right; }
.shape .what { text-align: left; }
.body { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 28px;
  padding: 14px 16px 18px; border-top: 1px solid var(--line); }
.shape .body { display: block; padding-top: 4px; }
.facts { display: flex; flex-wrap: wrap; gap: 6px 26px; margin: 0; }
.facts dt { font-size: .74rem; color: var(--soft); }
.facts dd { margin: 0; font-size: .9rem; }
table { width: 100%; border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: 7px 0; border-top: 1px solid var(--line);
  font-size: .88rem; font-weight: 400; }
tr:first-child > * { border-top: 0; }
th { width: 38%; padding-right: 14px; }
th code { font-weight: 600; margin-right: 6px; }
td p { margin: 1px 0 0; color: var(--soft); }
td p:empty { display: none; }
.bound { color: var(--soft); }
.chip { display: inline-block; padding: 0 7px; margin-right: 4px; border-radius: 20px;
  border: 1px solid var(--line); color: var(--soft);
  font-size: .72rem; line-height: 1.5; }
.chip.good { color: var(--post); border-color: currentColor; font-weight: 600; }
.chip.error { font-variant-numeric: tabular-nums; }
.soft { color: var(--soft); }
.body p { margin: 4px 0; }
pre { margin: 6px 0 0; padding: 12px 14px; background: var(--code); border: 1px solid var(--line);
  border-radius: 10px;
  white-space: pre-wrap; }
pre i { color: var(--soft); font-style: normal; }
.gone { display: none; }
@media (max-width: 860px) {
  .frame { display: block; }
  nav { position: static; max-height: none; padding: 18px 0 6px; border-bottom: 1px solid var(--line); }
  nav ul { display: flex; flex-wrap: wrap; gap: 2px 16px; margin-bottom: 8px; }
  nav li span { margin-left: 5px; }
  .mark { margin-bottom: 10px; }
  .body { grid-template-columns: minmax(0, 1fr); gap: 4px; }
  .what { flex-basis: 100%; text-align: left; }
  header h1 { font-size: 1.7rem; }
  th { width: 44%; }
}
""".lstrip()

SCRIPT = """
const find = document.querySelector(".find"), field = find.firstElementChild;
const open = () => {
  const at = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (at && at.tagName === "DETAILS") { at.open = true; at.scrollIntoView(); }
};
find.hidden = false;
field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\\s+/);
  for (const section of document.querySelectorAll("section")) {
    let some = false;
    for (const one of section.querySelectorAll("details")) {
      const text = one.firstElementChild.textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word));
      one.classList.toggle("gone", !fits);
      some ||= fits;
    }
    section.classList.toggle("gone", !some);
  }
});
addEventListener("hashchange", open);
open();
""".lstrip()
