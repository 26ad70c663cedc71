"""The shell around the core: sockets are accepted, greeted, served in turns, and closed.

All that waits is here.
"""
