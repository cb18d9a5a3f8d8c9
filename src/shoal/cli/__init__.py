"""The command line: argument parsing only. Each command is a module, imported when it is called."""

from __future__ import annotations

from shoal.cli.group import main

__all__ = ["main"]
