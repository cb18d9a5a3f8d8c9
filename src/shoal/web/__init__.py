"""The web app: pages for people, on the same feeds and services as the API.

Every page works without scripts: forms post, and lists have links to their next page. Scripts add comfort.
"""
