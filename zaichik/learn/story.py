"""A result to read: in sections for people, as JSON or JUnit XML for programs."""

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from zaichik.learn.exercise import Verdict
from zaichik.learn.runner import FAILED, INCONCLUSIVE, SKIPPED, Result
from zaichik.learn.stages import STAGES
from zaichik.learn.wire import AFTER_LAST

FRAMES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the story.

    Attributes:
        title: such as "expected".
        lines: its text.
    """

    title: str
    lines: tuple[str, ...]


def sections(result: Result, options: str = "") -> list[Section]:
    """Why a check failed, from the verdict to the details.

    Args:
        result: the check's result.
        options: options of the command that runs it again, such as " --config other.toml".
    """
    failure = result.failure
    if failure is None:
        return [Section("because", (result.reason,))] if result.reason else []
    again = (
        f"zaichik learn check {result.check.id} --seed {result.seed}{options}  (frames are "
        f"sent {result.pattern})"
    )
    titled = [
        ("wrong", (failure.summary,)),
        ("request", (failure.asked,)),
        ("expected", (failure.expected,)),
        ("received", (failure.came,)),
        ("first wrong byte", _wrong_byte(result)),
        ("proof", failure.drawing.lines() if failure.drawing else failure.excerpt),
        ("likely cause", (failure.cause,)),
        ("server", (result.exit_status,)),
        ("frames", _frames(result)),
        ("server's output", tuple(result.output.splitlines())),
        ("sentences", (" ".join(result.check.sentences),)),
        ("run it again", (again,)),
    ]
    return [Section(title, lines) for title, lines in titled if any(lines)]


def _wrong_byte(result: Result) -> tuple[str, ...]:
    wrong = result.failure.wrong if result.failure else None
    if wrong is None:
        return ()
    bytes_ = [
        f"{name} {data.hex(' ')}"
        for name, data in (("expected", wrong.expected), ("came", wrong.came))
        if data
    ]
    where = wrong.field if wrong.field == AFTER_LAST else f"in the field {wrong.field}"
    return (
        f"byte {wrong.at} of the frame, {where}: {', '.join(bytes_) or 'the frame ends there'}",
    )


def _frames(result: Result) -> tuple[str, ...]:
    lines = []
    several = len({entry.connection for entry in result.trace.entries}) > 1
    chosen = result.failure.frames if result.failure else ()
    for entry in chosen or result.trace.entries[-FRAMES_SHOWN:]:
        label = f" #{entry.connection}" if several else ""
        lines.append(f"{entry.at:8.3f} s{label} {entry.direction} {entry.line()}")
        if entry.data:
            lines.append(f"{'':>{13 + len(label)}} {entry.hex()}")
    if chosen:
        return (f"the ones that matter, of {len(result.trace.entries):,}:", *lines)
    left_out = len(result.trace.entries) - FRAMES_SHOWN
    return (f"… {left_out} earlier", *lines) if left_out > 0 else tuple(lines)


def as_json(result: Result) -> dict[str, Any]:
    """A result as a JSON object."""
    state: dict[str, Any] = {
        "check": result.check.id,
        "title": result.check.title,
        "sentences": list(result.check.sentences),
        "outcome": result.outcome,
        "seeds": list(result.seeds),
        "seconds": round(result.seconds, 3),
    }
    if result.reason:
        state["reason"] = result.reason
    if (failure := result.failure) is not None:
        wrong = failure.wrong
        state["failure"] = {
            "seed": result.seed,
            "pattern": result.pattern,
            "summary": failure.summary,
            "asked": failure.asked,
            "expected": failure.expected,
            "came": failure.came,
            "wrong_byte": wrong and {"at": wrong.at, "field": wrong.field},
            "proof": list(failure.excerpt),
            "drawing": list(failure.drawing.lines()) if failure.drawing else [],
            "cause": failure.cause,
            "hint": result.check.hints[0],
            "server": result.exit_status,
            "output": result.output,
            "frames": [
                {
                    "seconds": round(entry.at, 6),
                    "connection": entry.connection,
                    "direction": entry.direction,
                    "frame": entry.line(),
                    "hex": entry.hex(len(entry.data), ""),
                }
                for entry in result.trace.entries
            ],
        }
    return state


def junit(results: Iterable[Result], options: str = "") -> str:
    """Results as XML for continuous integration systems; `options` as in `sections`."""
    root = ET.Element("testsuites", name="zaichik learn")
    titles = {stage.number: f"{stage.id} {stage.title}" for stage in STAGES}
    for number, group in groupby(results, key=lambda result: result.check.stage):
        cases = list(group)
        bad = sum(result.is_bad for result in cases)
        skipped = sum(result.outcome == SKIPPED for result in cases)
        suite = _suite(root, titles[number], len(cases), bad, skipped)
        for result in cases:
            name = f"{result.check.id} {result.check.title}"
            case = ET.SubElement(
                suite, "testcase", classname=f"S{number}", name=name, time=f"{result.seconds:.3f}"
            )
            if result.outcome in {FAILED, INCONCLUSIVE}:
                summary = result.failure.summary if result.failure else result.reason
                ET.SubElement(case, "failure", message=_xml(summary)).text = _xml(
                    as_text(result, options)
                )
            elif result.outcome == SKIPPED:
                ET.SubElement(case, "skipped", message=result.reason)
    return _written(root)


def exercise_junit(number: str, verdict: Verdict) -> str:
    """The same for an exercise: a test case for each question that was asked."""
    root = ET.Element("testsuites", name="zaichik learn")
    titles = [*verdict.passed, *filter(None, [verdict.failed])]
    suite = _suite(root, f"{number} {verdict.title}", len(titles), int(bool(verdict.failed)), 0)
    for title in titles:
        case = ET.SubElement(suite, "testcase", classname=number, name=_xml(title))
        if title == verdict.failed:
            ET.SubElement(case, "failure", message=_xml(verdict.reason)).text = _xml(verdict.reason)
    return _written(root)


def _suite(root: ET.Element, name: str, tests: int, failures: int, skipped: int) -> ET.Element:
    counts = {"tests": str(tests), "failures": str(failures), "skipped": str(skipped)}
    return ET.SubElement(root, "testsuite", {"name": _xml(name), **counts})


def _written(root: ET.Element) -> str:
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def as_text(result: Result, options: str = "") -> str:
    """The sections one below the other, without colours."""
    return "\n".join(
        f"{section.title}: {section.lines[0]}" if len(section.lines) == 1
        else "\n".join([f"{section.title}:", *(f"  {line}" for line in section.lines)])
        for section in sections(result, options)
    )  # fmt: skip


def _xml(text: str) -> str:
    """Text without characters that XML cannot hold."""
    return "".join(
        char if char in "\n\t" or char.isprintable() else f"\\x{ord(char):02x}" for char in text
    )
