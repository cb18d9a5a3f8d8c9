"""Pages and files for people without an app."""
