"""The tag cloud as a picture."""
