"""Programs of the desk: what `make` calls beside the tools."""
