"""Administration: backup, restore, consistency check, import and export, moves between stores, statistics and the audit log."""
