"""Frames that must be refused: `protocol/vectors/invalid.json`, sent to the broker under test as it is.

They are beside the package in a clone; an installed package has a copy in it.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zaichik.learn.layouts import ERROR_CODES, FATAL, HEADER, TYPES
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame

FILES = (Path(__file__).parents[2] / "protocol/vectors/invalid.json", Path(__file__).with_name("invalid.json"))
OPTIONAL = {TYPES[name] for name in ("Describe", "Delete", "Disconnect", "Explain", "AdvanceClock")}
OWNED = 1  # of Subscribe


async def refuse(trial: Trial, are_meant: Callable[[int], bool]) -> None:
    """Each of these frames must be answered with its error; the connection then ends, or goes on.

    Args:
        trial: whose connections are used.
        are_meant: which of them, by the frame's type; -1 for those that have none.
    """
    for case in json.loads(file(*FILES).read_text(encoding="utf-8")):
        data = bytes.fromhex(case["hex"])
        if case["receiver"] == "broker" and are_meant(_type(case, data)):
            await _refuse(trial, case, data)


def file(clone: Path, copy: Path) -> Path:
    """Of the two places, the one where the frames are; those of a clone may have changed since it was installed."""
    return clone if clone.exists() else copy


def _type(case: dict[str, Any], data: bytes) -> int:
    """Of the frame; -1 where its length is wrong already."""
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
            client.must_be_error(frame, case["code"], request_type=max(0, kind), at=case["field"] or None, **more)
            if code < 64 or not case["hello_done"]:
                return await client.ends()
        return await client.ping()


def _may_be_unknown(data: bytes, frame: Frame) -> bool:
    """Whether this says that the broker leaves out what the frame asks for, and may."""
    if len(data) < 6 or frame.name != "Error" or frame["code"] != ERROR_CODES["UNSUPPORTED"]:
        return False
    owned = data[4] == TYPES["Subscribe"] and data[5] & OWNED
    return (data[4] in OPTIONAL and frame["field"] == "type") or bool(owned and frame["field"] == "flags")
