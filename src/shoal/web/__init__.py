"""The web app: server-rendered HTML pages on the queries and commands of the API.

Every page works without scripts: forms post, and lists link to their next page.
"""
