"""Home timelines: bounded lists of entry ids, which cache data of the graph."""
