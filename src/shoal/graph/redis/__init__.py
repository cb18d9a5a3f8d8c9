"""Shared state of several processes on Redis: the servers, and the stamps of what each process remembers.

Glossary (`docs/glossary.md`): stamp.
"""
