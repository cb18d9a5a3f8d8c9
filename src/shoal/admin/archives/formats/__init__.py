"""Readers of archives: one module per format, all yielding `ArchiveRecord`s."""
