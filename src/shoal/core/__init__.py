"""Values and pure rules, without I/O and without dependencies on other packages of Shoal."""
