"""The page that describes the API to people, made of the OpenAPI document: it says nothing that the document does not.

It can be read without a script; the little one there is narrows the page to what is typed, and opens what a link leads to.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from typing import Final

from shoal.api.reference.examples import curl
from shoal.api.reference.openapi_answers import OAUTH
from shoal.api.reference.openapi_schemas import Schema
from shoal.api.reference.style import SCRIPT, STYLE
from shoal.api.reference.words import bounds_of, kind_of, prose, rows_of

METHODS: Final = ("get", "post", "put", "patch", "delete")


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


HEADERS: Final = {
    "Content-Security-Policy": f"default-src 'none'; style-src {_source(STYLE)}; script-src {_source(SCRIPT)}; base-uri 'none'; "
    "form-action 'none'",
    "Referrer-Policy": "same-origin",
}

_WHO: Final = {
    "public": "anybody",
    "optional": "anybody; a member sees more",
    "app": "an app",
    "client": "an app by itself",
    "user": "a member",
}


def page_of(document: Schema) -> str:
    """The whole page."""
    parts = [(tag, list(_operations(document, tag["name"]))) for tag in document["tags"]]
    sections = "".join(_section(tag, operations) for tag, operations in parts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>The API of Shoal</title>'
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
        f'<ul>{links}<li><a href="#shapes">shapes</a></li></ul><a class="raw" href="{base}/openapi.json">openapi.json</a></nav>'
    )


def _opening(document: Schema, parts: list[tuple[Schema, list[tuple[str, str, Schema]]]]) -> str:
    info, count = document["info"], sum(len(operations) for _, operations in parts)
    return (
        f'<header id="top"><p class="over">Version {escape(info["version"])} · {count} routes</p><h1>The API of Shoal</h1>'
        f"<p>{prose(info['description'])}</p>"
        "<pre><code><i># What the examples below use</i>\nSERVER=https://shoal.example  TOKEN=...</code></pre></header>"
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
    return (
        f'<details class="route" id="{id_}"><summary><span class="verb {method}">{method.upper()}</span>'
        f'<code class="path">{shown}</code>{stub}<span class="what">{prose(operation["summary"])}</span></summary>'
        f'<div class="body"><div>{_more(operation)}{_needs(operation)}{_asked(operation)}{_answers(operation)}</div>'
        f"<div><h4>Example</h4><pre><code>{escape(curl(method, path, operation))}</code></pre></div></div></details>"
    )


def _more(operation: Schema) -> str:
    return f"<p>{prose(operation['description'])}</p>" if "description" in operation else ""


def _needs(operation: Schema) -> str:
    scopes = [scope for way in operation["security"] for scope in way.get(OAUTH, ())]
    facts = [("Who", _WHO[operation["x-auth"]])]
    facts += [("Scope", f"<code>{escape(scope)}</code>") for scope in scopes]
    facts.append(("Limit", f"<code>{escape(operation['x-limit-class'])}</code>"))
    if "requestBody" in operation:
        facts.append(("Body", f"at most {operation['x-max-body'] / 1024:,.0f} KiB"))
    return (
        '<dl class="facts">' + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts) + "</dl>"
    )


def _asked(operation: Schema) -> str:
    rows = [
        _row(item["name"], item["schema"], item.get("description", ""), item["in"], needed=item["required"])
        for item in operation.get("parameters", ())
    ]
    if body := operation.get("requestBody"):
        # The last content has everything: files come as multipart only.
        schema = [*body["content"].values()][-1]["schema"]
        rows += [_row(name, inner, said, "", needed=needed) for name, inner, said, needed in rows_of(schema)]
    return f"<h4>Takes</h4>{_table(rows)}" if rows else ""


def _row(name: str, schema: Schema, said: str, where: str, *, needed: bool) -> str:
    marks = ('<span class="chip">needed</span>' if needed else "") + (
        f'<span class="chip">{where}</span>' if where else ""
    )
    bounds = bounds_of(schema)
    limit = f'<span class="bound">{escape(bounds)}</span>' if bounds else ""
    return f"<tr><th><code>{escape(name)}</code>{marks}</th><td>{kind_of(schema, taken=True)} {limit}<p>{prose(said)}</p></td></tr>"


def _table(rows: list[str]) -> str:
    return f"<table>{''.join(rows)}</table>"


def _answers(operation: Schema) -> str:
    good = []
    errors = []
    for status, answer in operation["responses"].items():
        if "$ref" in answer:
            errors.append(f'<span class="chip error">{status}</span>')
            continue
        kind, content = next(iter(answer["content"].items()))
        shape = kind_of(content["schema"]) if kind == "application/json" else f"<code>{escape(kind)}</code>"
        pages = ' <span class="chip">pages</span>' if "Link" in answer["headers"] else ""
        said = f'<span class="soft">{prose(answer["description"])}</span>'
        good.append(f'<p><span class="chip good">{status}</span> {shape}{pages} {said}</p>')
    return f'<h4>Answers</h4>{"".join(good)}<p class="errors">{"".join(errors)} <a href="#shape-Error">Error</a></p>'


def _shapes(document: Schema) -> str:
    cards = "".join(_shape(name, schema) for name, schema in sorted(document["components"]["schemas"].items()))
    return (
        f'<section id="shapes"><h2>Shapes</h2><p class="lead">What stands in answers, key by key.</p>{cards}</section>'
    )


def _shape(name: str, schema: Schema) -> str:
    needed = set(schema.get("required", ()))
    rows = "".join(
        f"<tr><th><code>{escape(key)}</code>{'' if key in needed else '<span class=chip>not always</span>'}</th>"
        f"<td>{kind_of(inner)}<p>{prose(inner.get('description', ''))}</p></td></tr>"
        for key, inner in schema["properties"].items()
    )
    return (
        f'<details class="shape" id="shape-{escape(name)}"><summary><code class="path">{escape(name)}</code>'
        f'<span class="what">{prose(schema.get("description", ""))}</span></summary>'
        f'<div class="body"><table>{rows}</table></div></details>'
    )
