"""Operations on a network: check it, move it, take data in and out, run its processes."""
