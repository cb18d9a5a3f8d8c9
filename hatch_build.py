"""Generate the modules that are not checked in before each build of a wheel, an sdist or an editable install."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class GenerateSyncLibrary(BuildHookInterface[BuilderConfig]):
    """A build hook that writes `shoal.sync._generated` and `shoal.library._generated`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  # the hook's signature
        """Run the generator, which has no dependencies, by its path: the checkout is not importable in a build."""
        runpy.run_path(str(Path(self.root, "scripts", "sync_library.py")), run_name="__main__")
