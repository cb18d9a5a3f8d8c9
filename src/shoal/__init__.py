"""Shoal: a social-feed server and library. `Shoal.open(url)` is the front door, `shoal.errors` has what it raises.

`shoal.sync` has the same without `await`.
"""

from importlib.metadata import version

from shoal import errors
from shoal.core.contacts import hash_address
from shoal.core.errors import ShoalError
from shoal.core.model import Visibility
from shoal.core.ranking.recipes import Recipe, Weights
from shoal.library import Handle, Shoal, Visitor

__all__ = ["Handle", "Recipe", "Shoal", "ShoalError", "Visibility", "Visitor", "Weights", "errors", "hash_address"]
__version__ = version("shoal")
