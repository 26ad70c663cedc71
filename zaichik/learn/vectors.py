"""Frames that must be refused: `protocol/vectors/invalid.json`, sent unchanged.

They are next to the package in a clone; an installed package contains a copy.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zaichik.learn.layouts import ERROR_CODES, FATAL, HEADER, TYPES
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame

FILES = (
    Path(__file__).parents[2] / "protocol/vectors/invalid.json",
    Path(__file__).with_name("invalid.json"),
)
OPTIONAL = {
    TYPES[name]
    for name in (
        "Describe",
        "Delete",
        "Disconnect",
        "Explain",
        "AdvanceClock",
        "Settle",
        "Dead",
    )
}


async def refuse(trial: Trial, are_meant: Callable[[int], bool]) -> None:
    """Check that each frame gets its error, and that the connection then ends or goes on.

    Args:
        trial: opens the connections.
        are_meant: selects frames by type; -1 for those that have none.
    """
    for case in json.loads(file(*FILES).read_text(encoding="utf-8")):
        data = bytes.fromhex(case["hex"])
        if case["receiver"] == "broker" and are_meant(_type(case, data)):
            await _refuse(trial, case, data)


def file(clone: Path, copy: Path) -> Path:
    """The one of two places that has the frames; a clone's may be newer than installed ones."""
    return clone if clone.exists() else copy


def _type(case: dict[str, Any], data: bytes) -> int:
    """The frame's type; -1 if even its length is wrong."""
    is_whole = len(data) >= HEADER.size and 4 + int.from_bytes(data[:4], "little") == len(data)
    return data[4] if is_whole else -1


async def _refuse(trial: Trial, case: dict[str, Any], data: bytes) -> None:
    async with await (trial.client() if case["hello_done"] else trial.dial()) as client:
        await client.send_bytes(data, case["name"])
        frame = await client.read(awaited=f"{case['code']} for: {case['name']}")
        if not _may_be_unknown(data, frame):
            kind, code = _type(case, data), ERROR_CODES[case["code"]]
            more = {"id": 0 if kind < 0 else int.from_bytes(data[8:12], "little")}
            more |= {} if case["hello_done"] else {"flags": FATAL}
            client.must_be_error(
                frame, case["code"], request_type=max(0, kind), at=case["field"] or None, **more
            )
            if code < 64 or not case["hello_done"]:
                return await client.expect_end()
        return await client.ping()


def _may_be_unknown(data: bytes, frame: Frame) -> bool:
    """Whether the reply says that the broker does not offer an optional feature."""
    if len(data) < 6 or frame.name != "Error" or frame["code"] != ERROR_CODES["UNSUPPORTED"]:
        return False
    has_flags = data[4] == TYPES["Subscribe"] and data[5]
    return (data[4] in OPTIONAL and frame["field"] == "type") or bool(
        has_flags and frame["field"] == "flags"
    )
