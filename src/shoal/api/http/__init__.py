"""HTTP: from the bytes of a request to a handler, and from what it returns or raises to an answer."""
