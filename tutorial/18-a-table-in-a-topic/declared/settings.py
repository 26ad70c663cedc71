"""A topic's settings: numbers that a client may choose."""

from errors import INVALID_FIELD, UNSUPPORTED, require

TTL_MS, WINDOW_MS, CAPACITY, MAX_BYTES, MAX_KEYS = 1, 2, 3, 4, 5
TABLE, TOMBSTONES_MS = 11, 12
DEFAULTS = {
    TTL_MS: 0,
    WINDOW_MS: 0,
    CAPACITY: 10_000,
    MAX_BYTES: 67_108_864,
    MAX_KEYS: 100_000,
    TABLE: 0,
}
FOREVER = 2**64 - 1
OF_A_TABLE = {TTL_MS: FOREVER, TABLE: 1, TOMBSTONES_MS: 86_400_000}
CENTURY_MS = 3_155_760_000_000  # the longest duration that is not forever


def check_settings(pairs: list[tuple[int, int]]) -> dict[int, int]:
    """What was named, if all of it makes sense."""
    named: dict[int, int] = {}
    for number, value in pairs:
        good = number in DEFAULTS | OF_A_TABLE
        require(good, UNSUPPORTED, "settings", f"there is no {number}")
        good = number not in named
        require(good, INVALID_FIELD, "settings", f"{number} comes twice")
        good = value > 0
        if number in (TTL_MS, WINDOW_MS, TOMBSTONES_MS):
            good = value <= CENTURY_MS or value == FOREVER
        elif number == TABLE:
            good = value <= 1
        require(good, INVALID_FIELD, "settings", f"{number} is out of range")
        named[number] = value
    _check_together(named)
    return named


def _check_together(named: dict[int, int]) -> None:
    """Refuse what makes sense only in a table, or only outside of one."""
    good = TOMBSTONES_MS not in named
    if named.get(TABLE):
        good = named.get(TTL_MS, FOREVER) > 0 and not named.get(WINDOW_MS)
    require(good, INVALID_FIELD, "settings", "they contradict one another")
