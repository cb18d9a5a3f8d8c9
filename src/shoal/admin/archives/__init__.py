"""Import of the archives that other networks export for their members: read by a confined process, planned, and imported."""
