"""Ways into an account, as pages."""
