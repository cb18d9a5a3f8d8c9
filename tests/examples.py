"""How many examples the tests of properties try: so many in every run, and more in the deep one."""

from __future__ import annotations

import os

_TIMES = int(os.environ.get("SHOAL_EXAMPLES", "1"))
"""`make test-deep` sets this."""


def examples(usual: int) -> int:
    """So many in every run."""
    return usual * _TIMES
