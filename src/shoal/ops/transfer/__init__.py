"""Networks and members taken in from files, and written to files."""
