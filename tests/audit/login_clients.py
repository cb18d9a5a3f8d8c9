"""Clients for tests of log-ins."""

from __future__ import annotations

from shoal.core.credentials import site_of


class From:
    """A client at an IP address whose attempts are not counted."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.network = address.rpartition(".")[0]
        self.site = site_of("https://shoal.test", "Shoal")

    async def begin(self, account: str, *, known: bool, code: bool = False) -> None:
        """Allow every attempt."""

    async def take_back(self) -> None:
        """Do nothing, because `begin` counts nothing."""
