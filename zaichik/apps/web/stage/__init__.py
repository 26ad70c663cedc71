"""A stage for teachers: scenes that a class watches step by step.

Each has a broker of its own, which is thrown away afterwards.

In order of reading: `knobs` (what a teacher may change), `script` (calls at times), `scenes` (the
twelve, and free play), `actors` (the clients that carry the calls out), `stage` (one scene on one
broker), `faults` (models of what went wrong in 2020), `program` (a scene as a Python program),
`stages` (all that a web server has, and their addresses).
"""
