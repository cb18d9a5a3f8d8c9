"""The audit log: what leaves entries, what they say, who may read them, and how long they stay."""
