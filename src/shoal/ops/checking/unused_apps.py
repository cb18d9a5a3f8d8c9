"""Whether every app is used, or will be looked at again: those of old networks are on no agenda. And how that is put right."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence

import numpy as np

from shoal.commands import oauth
from shoal.core.model import App, Grant, Token
from shoal.graph.schema import DUE_ON, AnyNode
from shoal.ops.checking.invariants import MOST, Found
from shoal.ops.checking.report import Finding
from shoal.ops.checking.scan import Column, Links, found_in
from shoal.ops.network import AnyNetwork

_AT_ONCE = 16


class UnusedApps:
    """Collects apps that are not kept, and those that a token or a code is of: 8 bytes for each."""

    def __init__(self) -> None:
        self._checked = 0
        self._apps, self._tickets, self._used = array("q"), array("q"), array("q")

    def take(self, page: Sequence[AnyNode]) -> None:
        """Note what these objects say."""
        for node in page:
            if isinstance(node, App):
                self._checked += 1
                if not node.kept:
                    self._apps.append(node.id)
                    self._tickets.append(node.ticket_id)
            elif isinstance(node, Token | Grant):
                self._used.append(node.app_id)

    def compared(self, links: Links) -> Found:
        """The apps that nobody uses and that are on no agenda."""
        ids = _column(self._apps)
        used = found_in(ids, np.unique(_column(self._used)))
        planned = found_in(_column(self._tickets), np.unique(links.of(DUE_ON.number).id1))
        wrong = ids[~used & ~planned]
        findings = [
            Finding("nobody uses {0}, nor will look whether somebody does", (id_,), app=id_) for id_ in wrong.tolist()
        ]
        return Found(self._checked, len(findings), findings[:MOST])


async def plan_ends(network: AnyNetwork, findings: Sequence[Finding]) -> None:
    """Put the apps of these findings on the agenda: they go after a day in which nobody uses them."""
    ids = [finding.app for finding in findings if finding.app]
    for start in range(0, len(ids), _AT_ONCE):
        await asyncio.gather(*(oauth.plan_end(network.writes, id_) for id_ in ids[start : start + _AT_ONCE]))


def _column(values: array[int]) -> Column:
    return np.frombuffer(values, np.int64) if values else np.empty(0, np.int64)
