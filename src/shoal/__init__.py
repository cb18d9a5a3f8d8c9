"""Shoal: a social-feed server and library. `Shoal.open(url)` is the entry point. `shoal.errors` contains its exceptions.

`shoal.sync` is the synchronous API. Names are imported when they are first used: a server starts small programs of this
package for every video, and they would otherwise spend most of their time on imports.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal import errors
    from shoal.core.email import hash_address
    from shoal.core.errors import ShoalError
    from shoal.core.model import Visibility
    from shoal.core.ranking.recipes import Recipe, Weights
    from shoal.http.errors import http_status
    from shoal.library import Handle, Shoal, Visitor

    __version__: str

__all__ = [
    "Handle",
    "Recipe",
    "Shoal",
    "ShoalError",
    "Visibility",
    "Visitor",
    "Weights",
    "errors",
    "hash_address",
    "http_status",
]

_HOMES = {
    "Handle": "shoal.library",
    "Recipe": "shoal.core.ranking.recipes",
    "Shoal": "shoal.library",
    "ShoalError": "shoal.core.errors",
    "Visibility": "shoal.core.model",
    "Visitor": "shoal.library",
    "Weights": "shoal.core.ranking.recipes",
    "hash_address": "shoal.core.email",
    "http_status": "shoal.http.errors",
}

# Type checkers must not see this function, because they would then accept any misspelled name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "__version__":
            found = import_module("importlib.metadata").version("shoal")
        elif name == "errors":
            found = import_module("shoal.errors")
        elif name in _HOMES:
            found = getattr(import_module(_HOMES[name]), name)
        else:
            raise AttributeError(f"module 'shoal' has no attribute {name!r}")
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, "__version__"})
