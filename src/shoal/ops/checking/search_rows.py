"""Whether the search index has every member and post as they are, and nothing else; and how that is put right."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.model import Member, Post
from shoal.graph.contract import Reader
from shoal.graph.schema import AnyNode
from shoal.ops.checking.invariants import MOST, Found
from shoal.ops.checking.report import Finding
from shoal.ops.network import AnyNetwork
from shoal.search.indexing import rows_of

_PAGE = 2_000


class SearchRows:
    """Compares rows with objects, page by page."""

    def __init__(self, network: AnyNetwork) -> None:
        self._graph: Reader = network.effects.graph
        self._index = network.effects.search.index
        self.checked = 0
        self.wrong = 0
        self.findings: list[Finding] = []

    async def is_filled(self) -> bool:
        """Whether there is anything to compare: an index that is still being filled is behind by right."""
        return self._index.keeps and (await self._index.state()).complete

    async def watch(self, page: Sequence[AnyNode]) -> None:
        """Compare the rows of these objects."""
        nodes = {node.id: node for node in page if isinstance(node, Member | Post)}
        expected = await rows_of(self._graph, nodes)
        held = await self._index.rows(list(expected)) if expected else {}
        self.checked += len(expected)
        for id_, row in expected.items():
            if held.get(id_) != row:
                self._tell("the search index does not have {0} as it is", id_)

    async def compared(self) -> Found:
        """All that was found, with what the index has and the graph has not."""
        after = -1
        while ids := await self._index.ids(after, _PAGE):
            after = ids[-1]
            there = await self._graph.obj_get(ids)
            for id_ in ids:
                if id_ not in there:
                    self._tell("the search index has {0}, which is gone", id_)
        return Found(self.checked, self.wrong, self.findings)

    def _tell(self, words: str, id_: int) -> None:
        self.wrong += 1
        if len(self.findings) < MOST:
            self.findings.append(Finding(words, (id_,), look=id_))


async def look_again(network: AnyNetwork, findings: Sequence[Finding]) -> None:
    """Have the objects of these findings looked at."""
    if ids := [finding.look for finding in findings if finding.look]:
        await network.effects.search.look(network.effects.graph, ids)
