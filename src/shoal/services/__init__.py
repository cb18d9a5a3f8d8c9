"""The verbs: each checks its input and who may do it, builds one batch, and commits it."""
