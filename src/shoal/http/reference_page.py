"""The HTML reference of the API, generated from the OpenAPI document alone, with a curl command for each route.

The page works without JavaScript; its one script filters the routes and opens the target of a link.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from typing import Any, Final

import msgspec

from shoal.http.openapi import OAUTH, REF, Schema

_WORDS: Final = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "object": "object",
    "null": "null",
}
_HUGE: Final = 10**15
"""Limits from this value on are not shown, because no client reaches them."""


_QUOTED: Final = re.compile(r"`([^`]+)`")


def prose(text: str) -> str:
    """Convert a sentence to HTML; text in backticks becomes code."""
    return _QUOTED.sub(r"<code>\1</code>", escape(text))


def kind_of(schema: Schema, *, taken: bool = False) -> str:
    """Return the type of a value as HTML, with a link for a struct. For a parameter (`taken`), "or null" is omitted."""
    if "$ref" in schema:
        name = escape(schema["$ref"].removeprefix(REF))
        return f'<a class="kind" href="#shape-{name}">{name}</a>'
    if "anyOf" in schema:
        kinds = [each for each in schema["anyOf"] if not (taken and each == {"type": "null"})]
        return " or ".join(map(kind_of, kinds))
    first, *rest = _types(schema, "any JSON value")
    return f"{_first_kind(first, schema)}{' or null' if rest and not taken else ''}"


def _types(schema: Schema, default: str) -> list[str]:
    kinds = schema.get("type", default)
    return [kinds] if isinstance(kinds, str) else kinds


def _first_kind(kind: str, schema: Schema) -> str:
    if "enum" in schema:
        return " ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"] if value is not None)
    if kind == "array":
        return f"list of {kind_of(schema['items'])}"
    if "additionalProperties" in schema:
        return f"object of {kind_of(schema['additionalProperties'])}"
    if schema.get("format") == "binary":
        return "file"
    if "pattern" in schema:
        return "id"
    return _WORDS.get(kind, kind)


def bounds_of(schema: Schema) -> str:
    """Return the limits of a value as text; empty if its type has no limits."""
    found = []
    if "maxLength" in schema:
        found.append(f"at most {schema['maxLength']:,} characters")
    if "maxItems" in schema:
        found.append(f"at most {schema['maxItems']:,} items")
        found.append(bounds_of(schema["items"]) and f"each {bounds_of(schema['items'])}")
    if "maximum" in schema and schema["maximum"] < _HUGE:
        found.append(f"{schema.get('minimum', 0):,} to {schema['maximum']:,}")
    return ", ".join(filter(None, found))


def rows_of(schema: Schema, before: str = "") -> Iterator[tuple[str, Schema, str, bool]]:
    """Yield the fields of a body, each with name in forms (`poll[options][]`), schema, description, and whether it is required."""
    needed = schema.get("required", ())
    for key, inner in schema["properties"].items():
        name = f"{before}[{key}]" if before else key
        is_list = "array" in _types(inner, "")
        item = inner["items"] if is_list else inner
        if "properties" in _plain(item):
            yield from rows_of(_plain(item), f"{name}[]" if is_list else name)
        else:
            yield f"{name}[]" if is_list else name, inner, inner.get("description", ""), not before and key in needed


def _plain(schema: Schema) -> Schema:
    """Return the schema of an object. If the schema lists alternatives, return the alternative that is an object."""
    return next((each for each in schema.get("anyOf", ()) if "properties" in each), schema)


_NAMED: Final[Mapping[str, object]] = {
    "status": "Good morning",
    "client_name": "My app",
    "redirect_uris": ["urn:ietf:wg:oauth:2.0:oob"],
    "name": "dawn",
    "tag": "dawn",
    "acct": "ann",
    "q": "dawn",
    "grant_type": "client_credentials",
    "visibility": "public",
}
_ID: Final = "1234567890"


def curl(method: str, path: str, operation: Schema) -> str:
    """Return a curl command with all required parameters. If no parameter is required, it has the first optional one."""
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", str(_value(parameter["name"], parameter["schema"])))
    lines = ["curl" + ("" if method == "get" else f" -X {method.upper()}") + f' "$SERVER{path}{_query(operation)}"']
    if operation["security"]:
        lines.append('-H "Authorization: Bearer $TOKEN"')
    lines += _body(operation.get("requestBody"))
    return " \\\n  ".join(lines)


def _query(operation: Schema) -> str:
    asked = [parameter for parameter in operation.get("parameters", ()) if parameter["in"] == "query"]
    shown = [parameter for parameter in asked if parameter["required"] or parameter["name"] in {"limit", "id[]"}]
    return "?" + "&".join(f"{parameter['name']}={_word(parameter)}" for parameter in shown) if shown else ""


def _word(parameter: Schema) -> object:
    value = _value(parameter["name"].removesuffix("[]"), parameter["schema"])
    return value[0] if isinstance(value, list) and value else value


def _body(body: Schema | None) -> list[str]:
    if body is None:
        return []
    kind, content = next(iter(body["content"].items()))
    schema = content["schema"]
    names = schema.get("required") or list(schema["properties"])[:1]
    values = {name: _value(name, schema["properties"][name]) for name in names}
    if kind == "multipart/form-data":
        return [f"-F {name}=@file.jpg" for name in names]
    return [f"-H 'Content-Type: application/json' -d '{msgspec.json.encode(values).decode()}'"]


def _value(name: str, schema: Schema) -> Any:
    if name in _NAMED:
        return _NAMED[name]
    if "anyOf" in schema:
        return _value(name, schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    if "pattern" in schema:
        return _ID
    kind = _types(schema, "string")[0]
    if kind == "array":
        return [_value(name, schema["items"])]
    if kind == "object":
        inner = schema.get("properties", {})
        return {key: _value(key, inner[key]) for key in list(inner)[:2]}
    return {"integer": schema.get("minimum", 20) or 20, "number": 1.0, "boolean": True}.get(kind, "...")


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


METHODS: Final = ("get", "post", "put", "patch", "delete")


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


HEADERS: Final = {
    "Content-Security-Policy": f"default-src 'none'; style-src {_source(STYLE)}; script-src {_source(SCRIPT)}; base-uri 'none'; "
    "form-action 'none'",
    "Referrer-Policy": "same-origin",
}


def page_of(document: Schema) -> str:
    parts = [(tag, list(_operations(document, tag["name"]))) for tag in document["tags"]]
    sections = "".join(_section(tag, operations) for tag, operations in parts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Shoal API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<style>{STYLE}</style></head><body><div class="frame">{_contents(document, parts)}'
        f"<main>{_opening(document, parts)}{sections}"
        f"{_shapes(document)}</main></div><script>{SCRIPT}</script></body></html>"
    )


def _operations(document: Schema, part: str) -> Iterator[tuple[str, str, Schema]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item and part in item[method]["tags"]:
                yield method, path, item[method]


def _contents(document: Schema, parts: list[tuple[Schema, list[tuple[str, str, Schema]]]]) -> str:
    base = escape(document["servers"][0]["url"].rstrip("/"))
    links = "".join(
        f'<li><a href="#part-{escape(tag["name"])}">{escape(tag["name"])}</a><span>{len(operations)}</span></li>'
        for tag, operations in parts
    )
    return (
        '<nav><a class="mark" href="#top">Shoal<b>API</b></a>'
        '<label class="find" hidden><input type="search" placeholder="Find a route" aria-label="Find a route"></label>'
        f'<ul>{links}<li><a href="#shapes">schemas</a></li></ul><a class="raw" href="{base}/openapi.json">openapi.json</a></nav>'
    )


def _opening(document: Schema, parts: list[tuple[Schema, list[tuple[str, str, Schema]]]]) -> str:
    info, count = document["info"], sum(len(operations) for _, operations in parts)
    return (
        f'<header id="top"><p class="over">Version {escape(info["version"])} · {count} routes</p><h1>Shoal API</h1>'
        f"<p>{prose(info['description'])}</p>"
        "<pre><code><i># Used in the examples below</i>\nSERVER=https://shoal.example  TOKEN=...</code></pre></header>"
    )


def _section(tag: Schema, operations: list[tuple[str, str, Schema]]) -> str:
    routes = "".join(_route(method, path, operation) for method, path, operation in operations)
    name = escape(tag["name"])
    head = f'<h2>{name.capitalize()}</h2><p class="lead">{prose(tag["description"])}</p>'
    return f'<section id="part-{name}">{head}{routes}</section>'


def _route(method: str, path: str, operation: Schema) -> str:
    id_ = operation["operationId"]
    shown = escape(path).replace("{", "<em>{").replace("}", "}</em>")
    stub = '<span class="chip">stub</span>' if operation.get("x-stub") else ""
    more = f"<p>{prose(operation['description'])}</p>" if "description" in operation else ""
    return (
        f'<details class="route" id="{id_}"><summary><span class="verb {method}">{method.upper()}</span>'
        f'<code class="path">{shown}</code>{stub}<span class="what">{prose(operation["summary"])}</span></summary>'
        f'<div class="body"><div>{more}{_access(operation)}{_parameters(operation)}{_responses(operation)}</div>'
        f"<div><h4>Example</h4><pre><code>{escape(curl(method, path, operation))}</code></pre></div></div></details>"
    )


def _access(operation: Schema) -> str:
    scopes = [scope for way in operation["security"] for scope in way.get(OAUTH, ())]
    facts = [("Access", escape(operation["x-access"]))]
    facts += [("Scope", f"<code>{escape(scope)}</code>") for scope in scopes]
    facts.append(("Rate limit", f"<code>{escape(operation['x-limit-class'])}</code>"))
    if "requestBody" in operation:
        facts.append(("Body", f"at most {operation['x-max-body'] / 1024:,.0f} KiB"))
    return (
        '<dl class="facts">' + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts) + "</dl>"
    )


def _parameters(operation: Schema) -> str:
    rows = [
        _row(item["name"], item["schema"], item.get("description", ""), item["in"], needed=item["required"])
        for item in operation.get("parameters", ())
    ]
    if body := operation.get("requestBody"):
        # The last content type includes the files.
        schema = [*body["content"].values()][-1]["schema"]
        rows += [_row(name, inner, text, "", needed=needed) for name, inner, text, needed in rows_of(schema)]
    return f"<h4>Parameters</h4><table>{''.join(rows)}</table>" if rows else ""


def _row(name: str, schema: Schema, text: str, where: str, *, needed: bool) -> str:
    marks = ('<span class="chip">required</span>' if needed else "") + (
        f'<span class="chip">{where}</span>' if where else ""
    )
    bounds = bounds_of(schema)
    limit = f'<span class="bound">{escape(bounds)}</span>' if bounds else ""
    return f"<tr><th><code>{escape(name)}</code>{marks}</th><td>{kind_of(schema, taken=True)} {limit}<p>{prose(text)}</p></td></tr>"


def _responses(operation: Schema) -> str:
    good = []
    errors = []
    for status, answer in operation["responses"].items():
        if "$ref" in answer:
            errors.append(f'<span class="chip error">{status}</span>')
            continue
        kind, content = next(iter(answer["content"].items()))
        shape = kind_of(content["schema"]) if kind == "application/json" else f"<code>{escape(kind)}</code>"
        pages = ' <span class="chip">paginated</span>' if "Link" in answer["headers"] else ""
        text = f'<span class="soft">{prose(answer["description"])}</span>'
        good.append(f'<p><span class="chip good">{status}</span> {shape}{pages} {text}</p>')
    return f'<h4>Responses</h4>{"".join(good)}<p class="errors">{"".join(errors)} <a href="#shape-Error">Error</a></p>'


def _shapes(document: Schema) -> str:
    cards = "".join(_shape(name, schema) for name, schema in sorted(document["components"]["schemas"].items()))
    return f'<section id="shapes"><h2>Schemas</h2><p class="lead">Fields of responses.</p>{cards}</section>'


def _shape(name: str, schema: Schema) -> str:
    needed = set(schema.get("required", ()))
    rows = "".join(
        f"<tr><th><code>{escape(key)}</code>{'' if key in needed else '<span class=chip>optional</span>'}</th>"
        f"<td>{kind_of(inner)}<p>{prose(inner.get('description', ''))}</p></td></tr>"
        for key, inner in schema["properties"].items()
    )
    return (
        f'<details class="shape" id="shape-{escape(name)}"><summary><code class="path">{escape(name)}</code>'
        f'<span class="what">{prose(schema.get("description", ""))}</span></summary>'
        f'<div class="body"><table>{rows}</table></div></details>'
    )
