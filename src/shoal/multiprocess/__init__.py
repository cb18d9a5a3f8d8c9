"""Several processes on one host: supervisor, messages over sockets and shared memory."""
