"""The client library: `connection` (requests and replies), `subscription` (reading), `producer` (writing in batches).

Beside them `messages` (what is returned) and `errors` (what is raised).
"""
