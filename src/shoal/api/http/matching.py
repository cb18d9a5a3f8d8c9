"""Which route a path belongs to: a trie of its segments.

A segment that is written out wins over one that is a parameter behind a sign (`@{name}`), and that over a bare parameter. One
slash at the end makes no difference. With 200 routes
it takes a microsecond, where going through a list of patterns as Starlette does takes up to a hundred (`docs/decisions/http.md`).
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

_SIGNS = "@"
"""Signs that may stand before a parameter."""


class _Node(Generic[T]):
    __slots__ = ("children", "other", "signed", "values")

    def __init__(self) -> None:
        self.children: dict[str, _Node[T]] = {}
        self.signed: dict[str, _Node[T]] = {}
        """Where a segment leads that begins with this sign."""
        self.other: _Node[T] | None = None
        """Where any segment leads that is not among the children."""
        self.values: dict[str, T] = {}


def parameters(path: str) -> tuple[str, ...]:
    """The names in braces of a path such as `/api/v1/accounts/{id}/statuses`."""
    return tuple(segment.lstrip(_SIGNS)[1:-1] for segment in path.split("/") if _is_parameter(segment))


class Trie(Generic[T]):
    """Paths, with one value per method at the end of each."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        # Most requests are for few paths without parameters; one look finds those.
        self._fixed: dict[str, tuple[dict[str, T], tuple[str, ...]]] = {}

    def add(self, method: str, path: str, value: T) -> None:
        """`ValueError` when the method and path are taken, parameter names aside."""
        node = self._root
        for segment in path[1:].split("/"):
            if not _is_parameter(segment):
                node = node.children.setdefault(segment, _Node())
            elif segment[0] in _SIGNS:
                node = node.signed.setdefault(segment[0], _Node())
            else:
                node.other = node.other or _Node()
                node = node.other
        if method in node.values:
            raise ValueError(f"two routes for {method} {path}")
        node.values[method] = value
        if not parameters(path):
            self._fixed[path] = (node.values, ())

    def find(self, path: str) -> tuple[dict[str, T], tuple[str, ...]] | None:
        """The values by method at this path, and what stands where its parameters are; None for an unknown path."""
        found = self._fixed.get(path)
        if found is not None:
            return found
        if path[-1:] == "/":
            path = path[:-1]
        return _walk(self._root, path[1:].split("/"), 0, ())


def _walk(
    node: _Node[T], segments: list[str], at: int, taken: tuple[str, ...]
) -> tuple[dict[str, T], tuple[str, ...]] | None:
    if at == len(segments):
        return (node.values, taken) if node.values else None
    segment = segments[at]
    child = node.children.get(segment)
    if child is not None:
        found = _walk(child, segments, at + 1, taken)
        if found is not None:
            return found
    if not segment:
        return None
    signed = node.signed.get(segment[0])
    if signed is not None and len(segment) > 1:
        found = _walk(signed, segments, at + 1, (*taken, segment[1:]))
        if found is not None:
            return found
    if node.other is None:
        return None
    return _walk(node.other, segments, at + 1, (*taken, segment))


def _is_parameter(segment: str) -> bool:
    return segment.lstrip(_SIGNS)[:1] == "{" and segment[-1:] == "}"
