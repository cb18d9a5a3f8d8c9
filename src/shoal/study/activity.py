"""How active members are where nobody says: a Zipf law, drawn by the position in the list and not by the name."""

from __future__ import annotations

import numpy as np

from shoal.study.mixing import mixed
from shoal.study.names.batch import Amounts, Numbers

_BITS = 53


def zipf_activity(ordinals: Numbers, exponent: float, seed: int) -> Amounts:
    """Return an activity for each position: u ** -exponent, with u as if drawn evenly from 0 to 1.

    The k-th smallest of n such u is about k / n, so the k-th busiest of n members is about (n / k) ** exponent times as active as
    the idlest: Zipf's law, without knowing n beforehand.
    """
    # Another stream than the one that generated names are made with.
    drawn = mixed(mixed(ordinals.astype(np.uint64), seed), 1)
    u = ((drawn >> np.uint64(64 - _BITS)).astype(np.float64) + 0.5) / (1 << _BITS)
    found: Amounts = u**-exponent
    return found
