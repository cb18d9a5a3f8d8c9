"""Settings in, running network out: the only room where backends are named."""

from __future__ import annotations

from shoal.wiring.network import Network, ProcessRole, open_network
from shoal.wiring.places import base_url, calls_path, control_path, media_url, store_files

__all__ = [
    "Network",
    "ProcessRole",
    "base_url",
    "calls_path",
    "control_path",
    "media_url",
    "open_network",
    "store_files",
]
