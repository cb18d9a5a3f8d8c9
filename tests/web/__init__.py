"""Pages, visited as people do: by what is written on them. `visitor.py` has a browser without scripts, `screens.py` a real one."""
