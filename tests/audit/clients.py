"""Clients of tests that try to log in."""

from __future__ import annotations

from shoal.core.credentials import site_of


class From:
    """A client at an address, that is counted for nothing."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.network = address.rpartition(".")[0]
        self.site = site_of("https://shoal.test", "Shoal")

    async def begin(self, account: str, *, known: bool, code: bool = False) -> None:
        """Let everything pass."""

    async def take_back(self) -> None:
        """Nothing was counted."""
