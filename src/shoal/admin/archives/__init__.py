"""Imports of archives that members bring from other networks."""
