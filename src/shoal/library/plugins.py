"""Library methods that other packages provide, by the entry-point group `shoal.library`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.metadata import entry_points

from shoal.core.errors import InvalidInput, missing_package

_GROUP = "shoal.library"


def plugin(name: str) -> Callable[..., Awaitable[None]]:
    """Load a method from its entry point. Raises `InvalidInput` if it or a package that it imports is not installed.

    An extra that contains its optional dependencies has the name of the method.
    """
    for entry in entry_points(group=_GROUP, name=name):
        try:
            loaded: Callable[..., Awaitable[None]] = entry.load()
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] == "shoal":
                raise
            raise InvalidInput(f"`{name}` {missing_package(error.name, name)}") from error
        return loaded
    raise InvalidInput(f"`{name}` {missing_package(f'shoal_{name}', name)}")
