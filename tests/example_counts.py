"""Numbers of examples of property tests, which are higher in the second tier."""

from __future__ import annotations

import os

_TIMES = int(os.environ.get("SHOAL_EXAMPLES", "1"))
"""`make test-all` sets this."""
DEEP = _TIMES > 1
"""Whether this run includes the second tier."""


def examples(usual: int, *, full: int = 0) -> int:
    """Return the number of examples: half of `usual` in the first tier, a multiple of `usual` or `full` in the second."""
    return max(usual, full) * _TIMES if DEEP else (usual + 1) // 2
