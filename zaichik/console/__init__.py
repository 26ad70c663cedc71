"""The command line. `main` finds the command; each command is a file with `add_arguments` and `run`.

Beside them: `screen` (how things are shown), `failure` (how things go wrong), `address` (`--connect`),
`topic_settings` (`--retention` and the like), `limits` (`--limit`, and the table), `quantities` (10s, 64MiB).
Nothing outside this package imports rich.
"""
