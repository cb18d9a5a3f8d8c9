"""The description of the API: an OpenAPI document, and a page to read."""
