"""What a process that runs a network sets for all of itself: who has the interpreter, memory, and garbage collection.

A library leaves these to the application that it is part of, so only the commands and the benchmarks call this.
"""

from __future__ import annotations

import ctypes
import gc
import sys

_SWITCH_SECONDS = 0.0005
"""How long a thread keeps the interpreter: the writer thread waits so long for its turn, several times a commit."""
_GC_THRESHOLD = 50_000
"""Objects made between two collections: caches hold many that live long, and thousands of requests that wait hold more.
Looking at all of these again and again took two fifths of the main thread under overload."""

_MMAP_THRESHOLD = -3
"""glibc's M_MMAP_THRESHOLD."""
_LARGE_BYTES = 1 << 20


def prepare() -> None:
    """Share the interpreter in short turns, and give large blocks of memory back: before the network is opened."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    _give_back_large_blocks()


def settle() -> None:
    """Collect garbage seldom, and never look at what is there by now: once the network is open."""
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, 20, 50)


def _give_back_large_blocks() -> None:
    """Have blocks of a megabyte and more given back to the system when they are freed.

    glibc raises its limit for that to 32 MB once one of them was freed, and then keeps the memory of uploads.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
