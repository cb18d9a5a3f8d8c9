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

from importlib.resources import files

from shoal.graph.redis.client import Script

HEAD_BYTES = 32
MARK_AT, MARK_BYTES = 16, 2
FLOOR_AT = 24


def _script(name: str, *, common: bool = False, grows: bool = True) -> Script:
    """Load a script from the folder `lua`. With `common`, the functions of `common.lua` precede it; for `grows`, see `Script`."""
    parts = ("common", name) if common else (name,)
    texts = [files("shoal.timelines").joinpath("lua", f"{part}.lua").read_text("utf-8") for part in parts]
    return Script(f"timelines.{name}", "".join(f"\n{text}" for text in texts), grows=grows)


PUSH = _script("push", common=True)
REMOVE = _script("remove", common=True, grows=False)
SUBTRACT = _script("subtract", common=True, grows=False)
CREATE = _script("create")
MERGE = _script("merge", common=True)
READ = _script("read", grows=False)
LOOK = _script("look", grows=False)
DROP = _script("drop", grows=False)
WARM = _script("warm", grows=False)
DROP_IDLE = _script("drop_idle", grows=False)
