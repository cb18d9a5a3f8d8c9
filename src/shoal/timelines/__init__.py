"""Home timelines: bounded lists of entry ids, a cache of what the graph says."""
