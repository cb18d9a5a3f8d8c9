"""The child process that decodes pictures: `python -m shoal.media.worker <limits as JSON>`.

It reads jobs from stdin and answers on stdout until stdin ends, which also happens if the server is killed. It cannot
write files, opens only a few, and dumps no core. It exits before it exceeds a limit on memory or processor time.
"""

from __future__ import annotations

import os
import resource
import sys
from math import ceil

import msgspec

from shoal.core.errors import InvalidInput
from shoal.media.confined import restrict
from shoal.media.limits import UploadLimits
from shoal.media.protocol import OUT_OF_MEMORY, Answer, Failure, Ready, RenderJob, failure_of
from shoal.media.render import crop, render
from shoal.multiprocess.frames import read_frame, write_frame

OPEN_FILES = 32


def main() -> None:
    limits = msgspec.json.decode(sys.argv[1], type=UploadLimits)
    # stdout is the pipe to the server, so output of codecs must go to stderr.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    restrict(
        {
            resource.RLIMIT_AS: limits.memory,
            resource.RLIMIT_NOFILE: OPEN_FILES,
            resource.RLIMIT_FSIZE: 0,
            resource.RLIMIT_CORE: 0,
        },
        soft=False,
    )
    write_frame(answers, Ready())
    while job := read_frame(sys.stdin.buffer):
        _allow_seconds(limits.seconds)
        answer = _answer(job, limits)
        write_frame(answers, answer)
        if isinstance(answer, Failure) and answer.kind == OUT_OF_MEMORY:
            return


def _allow_seconds(seconds: float) -> None:
    """Allow the next job this much processor time.

    The limit is raised for each job, because it counts from the start of the process.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _answer(encoded: bytes, limits: UploadLimits) -> Answer:
    try:
        job = msgspec.msgpack.decode(encoded, type=RenderJob)
        if job.crop:
            return crop(job.data, limits, job.crop, job.small)
        return render(job.data, limits, keep_kind=job.keep_kind, still=job.still)
    except InvalidInput as error:
        return failure_of(error)
    except MemoryError:
        return Failure(kind=OUT_OF_MEMORY, message="")


if __name__ == "__main__":
    main()
