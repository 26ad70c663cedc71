"""What a search has covered, and the story that goes wrong, in words."""

import traceback

from zaichik.base.counted import counted


def covered(kind, found, seconds):
    """How far a search has come."""
    tried = found.tried.total()
    return (
        f"{kind}: all {found.stories:,} stories of up to {counted(found.steps, 'step')}; "
        f"{found.states:,} states, {tried:,} steps tried, {seconds:.0f} s"
    )


def verbs(kind, found):
    """How often each verb was tried, the rarest last."""
    lines = [f"{kind}: how often each step was tried"]
    lines += [f"{count:>9,}  {verb}" for verb, count in found.tried.most_common()]
    return "\n".join(lines)


def wrong(kind, found):
    """The story that goes wrong, with all its requests, and what is wrong."""
    steps = counted(len(found.story), "step")
    lines = [f"{kind}: core and model do not agree after {steps}, and never after fewer"]
    for number, step in enumerate(found.story, start=1):
        lines.append(f"{number:>3} {step}")
        lines += [f"      {request}" for request in found.requests[number - 1]]
    lines += traceback.format_exception(found.problem, limit=-1)
    return "\n".join(lines).rstrip()
