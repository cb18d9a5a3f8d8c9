"""Names to study, in batches: from files, from a live network, or made up."""
