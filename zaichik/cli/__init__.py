"""The command line.

`main` finds the command; each command is a file with a docstring, `ARGUMENTS` and `run`.

Beside them: `arguments` (what they are made of), `screen` (how things are shown), `failure` (how
things go wrong), `signals` (how what serves is stopped), `connecting` (`--connect`),
`topic_settings` (`--retention` and the like), `limits` (`--limit`, and the table), `quantities`
(10s, 64MiB). Nothing outside this package imports rich.
"""
