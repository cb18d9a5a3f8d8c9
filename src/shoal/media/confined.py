"""Run a program under limits: `python -m shoal.media.confined SECONDS MEMORY FILE_SIZE PROGRAM ARGUMENTS...`.

Limits processor seconds, bytes of address space, bytes of written files, and the number of open files; disables core dumps.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping

OPEN_FILES = 64


def main() -> None:
    seconds, memory, size = map(int, sys.argv[1:4])
    program = sys.argv[4:]
    confine(seconds, memory, size)
    os.execv(program[0], program)  # noqa: S606 (no shell: the arguments are ours)


def confine(seconds: int, memory: int, size: int) -> None:
    """Limit the resources of this process permanently.

    Args:
        seconds: Processor seconds.
        memory: Bytes of address space.
        size: Bytes of each file that the process writes.
    """
    restrict(
        {
            resource.RLIMIT_CPU: seconds,
            resource.RLIMIT_AS: memory,
            resource.RLIMIT_FSIZE: size,
            resource.RLIMIT_NOFILE: OPEN_FILES,
            resource.RLIMIT_CORE: 0,
        },
        soft=True,
    )


def restrict(limits: Mapping[int, int], *, soft: bool) -> None:
    """Set the resource limits of this process permanently. No limit is raised.

    A limit above the current hard limit (or, with `soft`, the current soft limit) is lowered to it.
    """
    for what, limit in limits.items():
        current, hard = resource.getrlimit(what)
        lower = [set_ for set_ in (hard, *((current,) if soft else ())) if set_ != resource.RLIM_INFINITY]
        lowest = min([limit, *lower])
        resource.setrlimit(what, (lowest, lowest))


if __name__ == "__main__":
    main()
