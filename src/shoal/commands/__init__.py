"""Commands that change the state of the network. Each one validates its input, builds one batch and commits it."""
