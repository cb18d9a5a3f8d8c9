"""Composition root: opens the backends that the settings name and starts background tasks."""
