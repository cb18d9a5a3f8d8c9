"""The web app: pages for people, on the same queries and commands as the API.

Every page works without scripts: forms post, and lists have links to their next page. Scripts add comfort.
"""
