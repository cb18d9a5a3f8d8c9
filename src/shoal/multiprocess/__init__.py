"""Several processes on one host: supervisor, shared memory and one protocol over Unix sockets."""
