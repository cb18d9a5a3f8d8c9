"""Which of the connected viewers an update concerns. What it costs grows with those, not with all who are connected."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from shoal.streaming.connection import Connection
from shoal.streaming.updates import Told

_NOBODY: frozenset[Connection] = frozenset()


class Matching:
    """Connections by viewer, and by the sources that they follow."""

    def __init__(self) -> None:
        self._by_viewer: dict[int, set[Connection]] = {}
        self._by_source: dict[int, set[Connection]] = {}

    def everybody(self) -> list[Connection]:
        """All connections."""
        return [connection for found in self._by_viewer.values() for connection in found]

    def of(self, viewer: int) -> Collection[Connection]:
        """The connections of one viewer, who may have several."""
        return self._by_viewer.get(viewer, _NOBODY)

    def concerned(self, update: Told) -> Collection[Connection]:
        """Return the connections that follow a source of the update, or are named in it and hear of that, each once."""
        found = [self._by_source.get(source, _NOBODY) for source in update.sources()]
        # Connections that still load their sources are left out: they are told everything in order afterwards.
        found += [
            {one for one in self.of(member) if one.loaded and one.interest.hears(update)} for member in update.named()
        ]
        every = [connections for connections in found if connections]
        return every[0] if len(every) == 1 else _NOBODY.union(*every)

    def join(self, connection: Connection) -> None:
        """It is there, and follows nothing yet."""
        self._by_viewer.setdefault(connection.viewer, set()).add(connection)

    def leave(self, connection: Connection) -> None:
        """It is there no more; nothing happens when it was not."""
        self.unfollow(connection, list(connection.sources))
        _discard(self._by_viewer, connection.viewer, connection)

    def follow(self, connection: Connection, sources: Iterable[int]) -> None:
        """It follows these too."""
        for source in sources:
            connection.sources.add(source)
            self._by_source.setdefault(source, set()).add(connection)

    def unfollow(self, connection: Connection, sources: Iterable[int]) -> None:
        """It follows these no more."""
        for source in sources:
            connection.sources.discard(source)
            _discard(self._by_source, source, connection)


def _discard(among: dict[int, set[Connection]], key: int, connection: Connection) -> None:
    found = among.get(key)
    if found is not None:
        found.discard(connection)
        if not found:
            del among[key]
