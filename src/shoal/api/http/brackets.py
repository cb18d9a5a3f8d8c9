"""Names with brackets, as forms and query strings send them, turned into dictionaries and lists.

`a[k]=v` is a dictionary, `a[]=1&a[]=2` a list, `a[][name]=` a list of dictionaries in which a name that comes again begins the
next one (Rails), and `a[0][name]=` a dictionary of numbers, which `convert` reads as a list. A plain name that comes twice
keeps its last value, or is refused where the caller asks for that. A name whose brackets do not match is taken as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.api.http.errors import Malformed, OAuthRefused
from shoal.core.errors import InvalidInput

MAX_DEPTH = 8
"""How many levels a name or a JSON value may have."""

MAX_FIELDS = 1000
"""How many values a request may have, in all its levels."""


def unfold(pairs: Iterable[tuple[str, object]], *, once: bool = False) -> dict[str, object]:
    """The tree of all pairs. Names that contradict each other (`a=1&a[k]=2`) are `Malformed`.

    With `once` a plain name that comes twice raises `OAuthRefused`, as RFC 6749, 3.1 asks.
    """
    tree: dict[str, object] = {}
    for count, (name, value) in enumerate(pairs):
        if count >= MAX_FIELDS:
            raise InvalidInput(f"at most {MAX_FIELDS} fields may be sent")
        if "[" in name:
            keys = _keys(name)
            _put(tree, keys[0], keys[1:], value)
        elif once and name in tree:
            raise OAuthRefused("invalid_request", f"`{name[:80]}` is given more than once")
        elif isinstance(tree.get(name), dict | list):
            raise Malformed(f"`{name[:80]}` is given both as one value and as several")
        else:
            tree[name] = value
    return tree


def _keys(name: str) -> list[str]:
    head, _, rest = name.partition("[")
    if not head or not rest.endswith("]"):
        return [name]
    keys = rest[:-1].split("][")
    if len(keys) >= MAX_DEPTH:
        raise InvalidInput(f"names may have at most {MAX_DEPTH} levels")
    return [name] if any("[" in key or "]" in key for key in keys) else [head, *keys]


def _put(tree: dict[str, object], key: str, rest: list[str], value: object) -> None:
    if not rest:
        tree[key] = value
        return
    child = tree.setdefault(key, [] if rest[0] == "" else {})
    if isinstance(child, list) and rest[0] == "":
        _append(child, rest[1:], value)
    elif isinstance(child, dict) and rest[0] != "":
        _put(child, rest[0], rest[1:], value)
    else:
        raise Malformed(f"`{key[:80]}` is given in two shapes")


def _append(items: list[object], rest: list[str], value: object) -> None:
    if not rest:
        items.append(value)
        return
    if rest[0] == "":
        raise Malformed("lists directly inside lists cannot be sent in a form")
    last = items[-1] if items else None
    if not isinstance(last, dict) or _holds(last, rest):
        last = {}
        items.append(last)
    _put(last, rest[0], rest[1:], value)


def _holds(tree: dict[str, object], keys: list[str]) -> bool:
    """Whether the value is there already, so that another one must belong to the next dictionary of the list."""
    for key in keys[:-1]:
        child = tree.get(key)
        if not isinstance(child, dict):
            return False
        tree = child
    return keys[-1] != "" and keys[-1] in tree
