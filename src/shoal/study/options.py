"""Which schemes are studied, and under which circumstances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from shoal.core.errors import InvalidInput
from shoal.study.schemes.by_name import AsciiSum, Letters, Md5Levels
from shoal.study.schemes.contract import LevelScheme
from shoal.study.schemes.servers import HashedScheme, Jump, Modulo, Rendezvous

LEVEL_SCHEMES: Mapping[str, Callable[[], LevelScheme]] = {"letters": Letters, "ascii-sum": AsciiSum, "md5": Md5Levels}
HASHED_SCHEMES: Mapping[str, Callable[[], HashedScheme]] = {"modulo": Modulo, "jump": Jump, "rendezvous": Rendezvous}
RING_TITLES: Mapping[str, str] = {"ring": "Ring", "bounded": "Bounded loads"}
SCHEMES = ("letters", "ascii-sum", "mapping", "md5", "shoal", *HASHED_SCHEMES, *RING_TITLES)
"""Words that choose schemes, in the order in which they are shown."""
MOST_SERVERS = 64
"""A network of Shoal has 64 data sources, so there is nothing to do for a 65th store."""
MOST_RANGE = 1_000_000_000
MOST_ZIPF = 2.0
MOST_SEED = 2**31 - 1


class StudyOptions(NamedTuple):
    """The options of a study."""

    schemes: Sequence[str] = SCHEMES
    servers: int = 20
    grown: int = 24
    """Servers after several have come at once."""
    range_size: int = 0
    """Members of a range of the mapping scheme; 0: as many as fill `grown` servers."""
    zipf: float = 0.9
    """Exponent of activity where the source has none; 0: all are equally active, and nothing is hot."""
    seed: int = 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of servers that members are placed on: the usual one first, then after one came, one went, several came."""
        return tuple(dict.fromkeys((self.servers, self.servers + 1, self.servers - 1, self.grown)))

    def check(self) -> None:
        """Raise `InvalidInput` for options that make no sense."""
        unknown = [key for key in self.schemes if key not in SCHEMES]
        if unknown or not self.schemes:
            named = f"scheme {unknown[0]!r}" if unknown else "study without a scheme"
            raise InvalidInput(f"there is no {named}: schemes are {', '.join(SCHEMES)}")
        if not 2 <= self.servers < MOST_SERVERS:
            raise InvalidInput(f"a study has 2 to {MOST_SERVERS - 1} servers", field="servers")
        if not self.servers < self.grown <= MOST_SERVERS:
            raise InvalidInput(
                f"after growing there are more servers than the {self.servers} before, and at most {MOST_SERVERS}",
                field="grown",
            )
        if not 0 <= self.zipf <= MOST_ZIPF:
            raise InvalidInput(f"the exponent of activity is 0 to {MOST_ZIPF:g}", field="zipf")
        if not 0 <= self.range_size <= MOST_RANGE:
            raise InvalidInput(f"a range has at most {MOST_RANGE:,} members", field="range")
        if not 0 <= self.seed <= MOST_SEED:
            raise InvalidInput(f"a seed is 0 to {MOST_SEED:,}", field="seed")
