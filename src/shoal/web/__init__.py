"""The web app: server-rendered HTML pages on the same queries and commands as the API.

Every page works without scripts: forms post, and lists link to their next page.
"""
