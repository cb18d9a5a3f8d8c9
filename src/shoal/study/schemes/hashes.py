"""A 64-bit hash of each name: XXH3 of the xxHash family (Collet), by its own library."""

from __future__ import annotations

import numpy as np
from xxhash import xxh3_64_intdigest

from shoal.study.mixing import Hashes
from shoal.study.names.batch import NameBatch


def hashes_of(batch: NameBatch) -> Hashes:
    """Return the XXH3 hash of each name."""
    return np.fromiter(map(xxh3_64_intdigest, batch.encoded()), np.uint64, batch.size)
