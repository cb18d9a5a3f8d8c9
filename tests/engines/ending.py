"""The end of the engines that tests share.

A worker of a run side by side is killed when it takes long to exit, so its engines end with the session and not with the
process. Only where these modules are used without pytest they end with the process.
"""

from __future__ import annotations

import atexit
from contextlib import ExitStack

at_the_end = ExitStack()
"""Callbacks to run once after the last test, the latest first."""

atexit.register(at_the_end.close)
