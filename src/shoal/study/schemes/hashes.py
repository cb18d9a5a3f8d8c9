"""A 64-bit hash of each name: XXH3 of the xxHash family (Collet), by its own library, which is an extra."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from shoal.study.mixing import Hashes
from shoal.study.names.batch import NameBatch

PACKAGE = "xxhash"


def is_installed() -> bool:
    """Return whether the package that computes the hashes can be imported."""
    try:
        return find_spec(PACKAGE) is not None
    except ValueError:
        return False


def hash_of(data: bytes) -> int:
    """Return the XXH3 hash of some bytes."""
    from xxhash import xxh3_64_intdigest  # noqa: PLC0415  # an extra

    return xxh3_64_intdigest(data)


def hashes_of(batch: NameBatch) -> Hashes:
    """Return the XXH3 hash of each name."""
    from xxhash import xxh3_64_intdigest  # noqa: PLC0415  # an extra

    return np.fromiter(map(xxh3_64_intdigest, batch.encoded()), np.uint64, batch.size)
