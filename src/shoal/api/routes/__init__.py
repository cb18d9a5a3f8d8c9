"""The rows of the route table, a module for each part of the API."""
