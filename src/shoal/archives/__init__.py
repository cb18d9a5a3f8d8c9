"""Readers of the archives that other networks give their members: each format is a module that gives records of one type."""
