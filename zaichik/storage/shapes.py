"""What the JSON in the files of a log has to look like.

Checksums tell what a disk has changed. They do not tell what somebody has written who can compute
them, or a bug of ours. A file, or a record, that says something else than it may is damaged, like
any other: a start reports it, and `zaichik check` repairs it.
"""

from typing import Any, TypeGuard

from zaichik.base.json_text import NotJson, parsed
from zaichik.core.shared_names.saved_names import OF_DEAD, OF_NUMBERS, OF_OPEN
from zaichik.core.work_queue.message import Place
from zaichik_protocol import Batch, ErrorCode, Setting

U32 = 2**32 - 1
U64 = 2**64 - 1
I64 = 2**63 - 1
# Settings that a log needs; others have defaults.
NEEDED = {
    "retention_ttl_ms",
    "compaction_window_ms",
    "max_keys",
    "log_bytes",
    "segment_bytes",
}
KNOWN = {setting.name.lower() for setting in Setting}
OF_WINDOW = 8  # bytes: when it was opened
OF_STORED = 5  # parts of the answer to a stored batch
OF_REFUSED = 3


def is_number(value: Any, most: int = U64, least: int = 0) -> TypeGuard[int]:
    """Returns whether this is an integer in that range. True and false are none."""
    return type(value) is int and least <= value <= most


def is_time(value: Any) -> TypeGuard[int]:
    """Returns whether this can be a time in µs."""
    return is_number(value, I64, -I64)


def is_text(value: Any) -> TypeGuard[str]:
    """Returns whether this is a text that UTF-8 can hold."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def are_settings(value: Any) -> TypeGuard[dict[str, int]]:
    """Returns whether these are the settings of a durable topic."""
    if not isinstance(value, dict) or not value.keys() >= NEEDED:
        return False
    if not value.keys() <= KNOWN:
        return False
    # A program that has a broker in it may have given true, or 5e3: so they are written.
    for number in value.values():
        if not isinstance(number, int | float) or not 0 <= number <= U64:
            return False
    return True


def are_ranges(value: Any) -> TypeGuard[list[list[int]]]:
    """Returns whether these are pairs of offsets: the first, and the one after the last."""
    if not isinstance(value, list):
        return False
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2:
            return False
        if not all(is_number(offset) for offset in pair):
            return False
    return True


def are_positions(value: Any, *, forgotten: bool) -> bool:
    """Returns whether these are committed offsets by name.

    Those of a record may be null: forgotten.
    """
    if not isinstance(value, dict):
        return False
    for name, committed in value.items():
        if not is_text(name):
            return False
        if not is_number(committed) and not (forgotten and committed is None):
            return False
    return True


def are_names(value: Any, *, are_changes: bool) -> bool:
    """Returns whether these are shared names, or what has changed of some; see `saved_names`.

    In changes, null is a name, or a message, that is there no more.
    """
    if not isinstance(value, dict):
        return False
    for key, name in value.items():
        if not is_text(key):
            return False
        if name is None and are_changes:
            continue
        if not _is_name(name, are_changes=are_changes):
            return False
    return True


def _is_name(name: Any, *, are_changes: bool) -> bool:
    if not isinstance(name, dict):
        return False
    numbers = name.get("numbers")
    rows = name.get("rows")
    if not isinstance(numbers, list) or len(numbers) != OF_NUMBERS:
        return False
    if not all(is_number(number) for number in numbers) or not isinstance(rows, dict):
        return False
    for offset, row in rows.items():
        # No other text is this offset.
        if not offset.isdecimal() or str(int(offset)) != offset:
            return False
        if row is None and are_changes:
            continue
        if not _is_row(row):
            return False
    return True


def _is_row(row: Any) -> bool:
    """Returns whether this is an open message, or a dead one."""
    if not isinstance(row, list):
        return False
    if len(row) == OF_OPEN:
        *numbers, key = row
        is_place = is_number(row[0]) and row[0] < len(Place)
        return is_place and all(is_number(it) for it in numbers) and _is_hexadecimal(key)
    if len(row) == OF_DEAD:
        count, died_us, key, reason = row
        is_dead = is_number(count) and is_number(died_us) and is_text(reason)
        return is_dead and _is_hexadecimal(key)
    return False


def _is_hexadecimal(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        bytes.fromhex(value)
    except ValueError:
        return False
    return True


def is_refusal(value: Any) -> bool:
    """Returns whether this says why a batch was refused: a code, a text, a field."""
    if not isinstance(value, list) or len(value) != OF_REFUSED:
        return False
    code, message, field = value
    return _is_code(code) and is_text(message) and is_text(field)


def _is_code(value: Any) -> bool:
    if not is_number(value):
        return False
    try:
        ErrorCode(value)
    except ValueError:
        return False
    return True


def _is_answer(value: Any) -> bool:
    """Returns whether this is an answer to a numbered batch, as a checkpoint has it."""
    if not isinstance(value, list) or len(value) != OF_STORED:
        return is_refusal(value)
    *numbers, dropped = value
    return _is_hexadecimal(dropped) and all(is_number(number) for number in numbers)


def _is_producer(value: Any) -> bool:
    """Returns whether this is a producer, its next number, its time, and its answers."""
    if not isinstance(value, list) or len(value) != 4:
        return False
    producer, number, used_us, answers = value
    if not is_number(producer) or not is_number(number) or not is_time(used_us):
        return False
    return isinstance(answers, list) and all(_is_answer(answer) for answer in answers)


def is_checkpoint(fields: dict[str, Any], keys: bytes) -> bool:
    """Returns whether this is what a checkpoint says, and these are its windows."""
    for name in ("epoch", "segment", "position", "salt", "end", "compacted", "windows"):
        if not is_number(fields.get(name)):
            return False
    if not is_number(fields.get("head", 0)) or not is_time(fields.get("accepted_us")):
        return False
    producers = fields.get("producers")
    if not isinstance(producers, list) or not all(_is_producer(it) for it in producers):
        return False
    if not is_number(fields.get("ticket", 0)):
        return False
    if not are_names(fields.get("names", {}), are_changes=False):
        return False
    return are_positions(fields.get("positions"), forgotten=False) and _are_windows(fields, keys)


def _are_windows(fields: dict[str, Any], keys: bytes) -> bool:
    if not fields["windows"]:
        return True
    try:
        batch = Batch.parse(keys)
    except ValueError:
        return False
    if batch.count != fields["windows"]:
        return False
    return all(len(opened) == OF_WINDOW for opened in batch.each_payload())


def is_positions_body(body: bytes) -> bool:
    """Returns whether a record's body says where names stand."""
    return are_positions(_parsed(body), forgotten=True)


def is_refusal_body(body: bytes) -> bool:
    """Returns whether a record's body says why a batch was refused."""
    return is_refusal(_parsed(body))


def is_names_body(body: bytes) -> bool:
    """Returns whether a record's body says what has changed of shared names."""
    value = _parsed(body)
    if not isinstance(value, dict) or not is_number(value.get("ticket")):
        return False
    return are_names(value.get("names"), are_changes=True)


def _parsed(body: bytes) -> Any:
    """Returns what a body says; None if it is no JSON, which no body says."""
    try:
        return parsed(body)
    except NotJson:
        return None
