"""Shoal: a social-feed server and library. `Shoal.open(url)` is the front door."""

from importlib.metadata import version

from shoal.core.errors import ShoalError
from shoal.core.model import Visibility
from shoal.library import Handle, Shoal

__all__ = ["Handle", "Shoal", "ShoalError", "Visibility"]
__version__ = version("shoal")
