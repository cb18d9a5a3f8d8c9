"""A settings file in TOML with a comment for each setting, generated from the definitions in `settings.py`."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
from typing import Any

import msgspec

from shoal import settings
from shoal.settings import Settings

_WIDTH = 100
_HEAD = """\
# Settings of Shoal. A line that begins with "# name = ..." shows the default; remove the "#" to set another value.
# SHOAL_<NAME> in the environment wins over this file. `shoal doctor` looks at what is set.
"""


@functools.cache
def descriptions() -> dict[str, str]:
    tree = ast.parse(inspect.getsource(settings))
    body = next(part.body for part in tree.body if isinstance(part, ast.ClassDef) and part.name == Settings.__name__)
    found = {}
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            found[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return found


def render(chosen: Settings) -> str:
    """Return the text of a settings file. Values that differ from the default are set; the others are comments."""
    usual, parts = Settings(), [_HEAD]
    for name, text in descriptions().items():
        value, default = getattr(chosen, name), getattr(usual, name)
        comment = textwrap.fill(
            text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
        )
        line = f"{name} = {toml_value(value)}" if value != default else f"# {name} = {toml_value(default)}"
        parts.append(f"{comment}\n{line}\n")
    return "\n".join(parts)


def toml_value(value: Any) -> str:
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, list | tuple) and any(isinstance(item, dict) for item in value):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        inner = ", ".join(f"{toml_value(key)} = {toml_value(entry)}" for key, entry in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f"{value}"
    # TOML writes strings, numbers and lists like JSON, but requires U+007F to be escaped.
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
