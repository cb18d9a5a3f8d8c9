"""`python -m shoal.cli`, an alias of the `shoal` program."""

from __future__ import annotations

from shoal.cli.group import main

if __name__ == "__main__":
    main()
