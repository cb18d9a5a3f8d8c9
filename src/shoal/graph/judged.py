"""Changes that a commit has made to lists, for those who remember the lists as they were."""

from __future__ import annotations


class JudgedLists:
    """Lists that a commit judged on the store where it acted: what it changed of their entries and lengths.

    A list that is not among `counts` may have changed, too.
    """

    __slots__ = ("counts", "entries")

    def __init__(self) -> None:
        self.counts: dict[tuple[int, int], int] = {}
        """By how much each list became longer, by its object and type."""
        self.entries: dict[tuple[int, int], dict[int, tuple[int, bytes] | None]] = {}
        """Time and data of entries by the object that they lead to, in each list; None of those that ended."""

    def judge(self, id1: int, atype: int, by: int = 0) -> None:
        """A list was looked at, or became longer."""
        pair = (id1, atype)
        self.counts[pair] = self.counts.get(pair, 0) + by

    def note(self, id1: int, atype: int, id2: int, entry: tuple[int, bytes] | None) -> None:
        """An entry of a list is so from now on."""
        self.judge(id1, atype)
        self.entries.setdefault((id1, atype), {})[id2] = entry

    def forget(self) -> None:
        """The commit is judged anew."""
        self.counts.clear()
        self.entries.clear()
