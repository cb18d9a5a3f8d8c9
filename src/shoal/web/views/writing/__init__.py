"""Forms to write with, as pages show them."""
