"""Pages, visited as people do: by what is written on them. `visitor.py` has a browser without scripts, `chromium/` real ones."""
