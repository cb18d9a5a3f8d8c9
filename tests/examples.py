"""How many examples the tests of properties try: so many in every run, and more in the deep one."""

from __future__ import annotations

import os

_TIMES = int(os.environ.get("SHOAL_EXAMPLES", "1"))
"""`make test-all` sets this."""
DEEP = _TIMES > 1
"""Whether this is the deep run."""


def examples(usual: int, *, full: int = 0) -> int:
    """So many in every run, and so many times as many in the deep one: of `full`, where every run tries only some of those."""
    return max(usual, full) * _TIMES if DEEP else usual
