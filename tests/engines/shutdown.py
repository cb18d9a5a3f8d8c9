"""Shutdown of the engines that tests share.

pytest-xdist kills a worker that takes long to exit, so engines stop at the end of the session. Without pytest, they stop when
the process exits.
"""

from __future__ import annotations

import atexit
from contextlib import ExitStack

at_the_end = ExitStack()
"""Callbacks to run once after the last test, the latest first."""

atexit.register(at_the_end.close)
