"""Stores as commands find them: there already, or made on the way; held by a server, or free."""

from __future__ import annotations

from shoal.core.errors import InvalidInput
from shoal.settings import Settings
from shoal.wiring import store_files


def existing(settings: Settings) -> Settings:
    """The settings, if there is a store where they say; a command that reads makes none by mistake."""
    for path in store_files(settings):
        if not path.exists():
            raise InvalidInput(f"there is no store at {path}: name one with --store, or begin one with `shoal serve`")
    return settings
