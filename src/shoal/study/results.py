"""The figures of a study, as `--json` prints them. All of them are sums: no name of a member is in them, and none can be."""

from __future__ import annotations

import msgspec

from shoal.study.levels import LevelFigures


class SchemeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One scheme of the paper."""

    key: str
    title: str
    nanoseconds: float
    """Processor time of placing one name, without reading it and without counting."""
    levels: list[LevelFigures]
    """Each level by itself."""
    paths: list[LevelFigures]
    """Each level within those above it: the directories there are down to it."""


class Change(msgspec.Struct, frozen=True):
    """Servers that come or go."""

    before: int
    after: int
    moved: int
    """Members who are on another server afterwards."""
    least: float
    """So many must move if all servers are to have equally many."""


class ServerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One way to place members on servers."""

    key: str
    title: str
    nanoseconds: float
    servers: LevelFigures
    changes: list[Change]
    """One comes, one goes, several come."""
    note: str = ""


class Cooling(msgspec.Struct, frozen=True, kw_only=True):
    """The price of bringing the most active server down to `bound` times the mean. Heat is activity over the mean."""

    key: str
    title: str
    unit: str
    """The smallest part that the scheme can move by itself."""
    servers: int
    before: float
    after: float
    units: int
    members: int
    """Members who have to move for it."""
    moved_activity: float
    """Share of all activity that moves with them."""
    bound: float
    reached: bool


class MappingFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The mapping scheme, simulated."""

    range_size: int
    start: int
    """Servers at the beginning."""
    grown: int
    """Servers that were planned for after growing."""
    members: list[int]
    """Members of each server, a range each, in the order in which they were filled."""
    newest: float
    """Share of the newest hundredth of all members who are on one server: the one that is being filled."""
    heat: list[float]
    """Activity of each server over the mean, before anything is moved; empty where all members are alike."""
    exceptions: int
    """Members who were moved out of their range, and have an entry of their own."""
    lookups: float
    """Look-ups for a request, by activity: one finds the number and its range, and a second one where a member was moved."""
    heat_after: float
    reached: bool


class Outcome(msgspec.Struct, frozen=True):
    """Whether a scheme meets a constraint, and what was found."""

    scheme: str
    met: bool
    words: str


class Constraint(msgspec.Struct, frozen=True):
    """A constraint with its check."""

    name: str
    promise: str
    check: str
    outcomes: list[Outcome]


class Erratum(msgspec.Struct, frozen=True):
    """An error of the paper, and the proof."""

    claim: str
    proof: str
    holds: bool
    """Whether the proof, run again just now, came out."""


class BareLoop(msgspec.Struct, frozen=True):
    """A loop that calls `hashlib.md5` for each name and does nothing else: its processor time, in the same run."""

    names: int
    nanoseconds: float


class StudyResult(msgspec.Struct, frozen=True, kw_only=True):
    """A whole study."""

    names: int
    source: str
    activity: str
    """Where activity comes from, in words."""
    seconds: float
    """From the first name to the figures."""
    processor_seconds: float
    """Processor time of the whole process so far."""
    peak_bytes: int
    """The most memory that the process had."""
    version: str
    schemes: list[SchemeFigures]
    servers: list[ServerFigures]
    mapping: MappingFigures | None
    cooling: list[Cooling]
    constraints: list[Constraint]
    errata: list[Erratum]
    bare_loop: BareLoop
    checked: int
    """Names that the server's own code placed too, one by one, and found at the same place."""
    unavailable: list[str] = []
    """Titles of the schemes that were left out because a package is not installed."""
    needs: str = ""
    """That package."""
