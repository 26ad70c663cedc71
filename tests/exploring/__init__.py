"""Every short story that two clients, the clock and the sweep can tell, on the real core beside its
model.

Random histories are long, and find what needs much to happen. Here nothing is drawn: from each
state every step is taken, and the shortest stories come first. What goes wrong at all, mostly goes
wrong in some small story (the small-scope hypothesis); and of a story that cannot be shorter, all
that is told matters.

    python -m tests.exploring --steps 5

Reading order: `world` (what may happen, to the core and to the model of `tests/core`), `state`
(when two stories have led to the same), `search` (all of them, the shortest first), `report` (what
was covered, and the story that goes wrong).
"""
