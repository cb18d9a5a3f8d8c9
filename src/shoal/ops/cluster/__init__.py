"""Many processes on one machine: a small cluster, and what keeps processes running."""
