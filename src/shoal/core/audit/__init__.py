"""The audit log as values: who did what to whom, when, why, and from which address."""
