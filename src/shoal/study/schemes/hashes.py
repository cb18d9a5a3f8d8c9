"""A 64-bit hash of each name: XXH3 of the xxHash family (Collet), by its own library, which is an extra."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
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


@cache
def hash_function() -> Callable[[bytes], int]:
    """Return the function that computes the XXH3 hash of some bytes."""
    digest: Callable[[bytes], int] = import_module(PACKAGE).xxh3_64_intdigest
    return digest


def hashes_of(batch: NameBatch) -> Hashes:
    """Return the XXH3 hash of each name."""
    return np.fromiter(map(hash_function(), batch.encoded()), np.uint64, batch.size)
