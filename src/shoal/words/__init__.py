"""Catalogues of words in several languages, for pages and for mail."""
