"""Scripts that change and read timelines inside Redis.

A timeline is one string: a header of 32 bytes, and then the entries, 8 bytes each (little-endian), in arrival order. The header
has the history of the server on which it was created (16), a creation id (7, of which 2 mark the histories of the stores), `b`
for created or `f` for filled, and the floor (8). A push appends 8 bytes. Only the last `room` bytes of entries count; the entries
before them have been pushed out, their maximum is the floor, and they are cut off from time to time. A removed entry leaves a
zero.

Positive 64-bit integers have the order of the floating-point numbers with identical bits (below 0x7FF0 << 48, which ids reach in
2058), so Lua compares them as such, without conversion or rounding.
"""

from __future__ import annotations

from shoal.graph.redis.client import Script

HEAD_BYTES = 32
MARK_AT, MARK_BYTES = 16, 2
FLOOR_AT = 24


PUSH = Script.load(__package__, "timelines.push", common="common")
REMOVE = Script.load(__package__, "timelines.remove", common="common", grows=False)
SUBTRACT = Script.load(__package__, "timelines.subtract", common="common", grows=False)
CREATE = Script.load(__package__, "timelines.create")
MERGE = Script.load(__package__, "timelines.merge", common="common")
READ = Script.load(__package__, "timelines.read", grows=False)
LOOK = Script.load(__package__, "timelines.look", grows=False)
DROP = Script.load(__package__, "timelines.drop", grows=False)
WARM = Script.load(__package__, "timelines.warm", grows=False)
DROP_IDLE = Script.load(__package__, "timelines.drop_idle", grows=False)
