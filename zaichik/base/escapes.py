r"""Text from elsewhere made safe to show.

What could move the cursor, hide, or reorder a line becomes an escape.

Names, keys and payloads are untrusted, and a terminal obeys what is printed on it. These
functions return one line of visible characters. What is escaped, by general category:

    Cc      all: a newline would look like another message; ESC and U+009B begin commands to the
            terminal
    Cf      all that are invisible (bidirectional controls, zero-width characters, tags), except for
            joiners and tags where a script or an emoji needs them. The signs that stand above or
            around digits are visible and stay
    Zl, Zp  both: many programs end a line there
    Cs      all: a surrogate is no character, and UTF-8 cannot carry one
    Co      all: only the sender knows what they look like
    Cn      all except those reserved for pictographs, which may be emoji in a newer Unicode than
            Python's
    others  only a few that are invisible, variation selectors out of place, and a combining mark at
            the beginning, which would change the character before the text

Escapes are Python's: \n, \x1b, \u2028, \U000e0041. Backslashes are doubled, so nothing else looks
like an escape. \x80 to \xff are bytes that are not UTF-8.
"""

# Not compiled: its time is spent in regular expressions and `str.translate`.

import json
import logging
import re
from collections.abc import Callable
from typing import Any
from unicodedata import bidirectional, category, combining, name

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED_CATEGORIES = {"Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"}
_PICTOGRAPHS = range(0x1F000, 0x1FB00)  # reserved for them as a whole (Extended_Pictographic)
# Visible signs among the invisible ones (Prepended_Concatenation_Mark).
_SIGNS = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
# Letters and marks with no look of their own (Default_Ignorable_Code_Point), and a blank that
# passes for a space.
_INVISIBLE = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
_REMEMBERED = 10_000
_KEY_LETTERS = 40

# The first character of a JSON string, unless it is ASCII.
_AFTER_QUOTE = re.compile('(?<=")[^\x00-\x7f]')

_JOINERS = "\u200c\u200d"  # zero width non-joiner, zero width joiner
# They choose a variant of the character before them.
_SELECTORS = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
# Signs that are judged by their neighbours. First the flags that are written with tags, such as
# Scotland's.
_IN_CONTEXT = re.compile(
    "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f"
    f"|[{_JOINERS}{_SELECTORS}\U000e0020-\U000e007f]"
)


def shown(value: str | bytes) -> str:
    """Returns a name, a key or a payload as one safe line.

    It cannot be mistaken for another value.
    """
    if isinstance(value, bytes):
        # Bytes that are not UTF-8 become surrogates.
        text = value.decode("utf-8", "surrogateescape")
        return _safe(text.replace("\\", "\\\\"), _BYTES_TABLE)
    return _safe(value.replace("\\", "\\\\"), _TABLE)


def shown_key(key: bytes | None) -> str:
    """Returns a key for tables and plots, in at most 40 letters.

    It is text if that can be printed as it is, or else hex. A missing key is "-". What is cut ends
    with "…".
    """
    if key is None:
        return "-"
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = ""
    if not text.strip() or text != harmless(text):
        text = f"0x{key.hex()}"
    if len(text) > _KEY_LETTERS:
        return f"{text[: _KEY_LETTERS - 1]}…"
    return text


def harmless(sentence: str) -> str:
    """Returns a sentence as one safe line.

    Names in it should be `shown` first: here backslashes are not doubled.
    """
    return _safe(sentence, _TABLE)


def json_line(value: Any, *, ascii_only: bool = False) -> str:
    """Returns a value as one safe line of JSON, which is the same value when it is parsed.

    It is escaped where `shown` escapes.
    """
    text = json.dumps(value, ensure_ascii=ascii_only)
    if text.isascii() and text.isprintable():
        return text
    text = text.translate(_JSON_TABLE)
    text = _IN_CONTEXT.sub(lambda match: _in_context(match, _escape_json), text)
    # A mark at the beginning of a string would change the quote.
    return _AFTER_QUOTE.sub(_mark_in_json, text)


class LogFormatter(logging.Formatter):
    """A formatter whose messages are one line each, whatever names are in them.

    A traceback keeps its lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        """Returns the record's line."""
        record.message = harmless(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 (logging's name)
        """Returns the lines of a traceback."""
        return "\n".join(map(harmless, super().formatException(ei).split("\n")))


def _safe(text: str, table: "_Table") -> str:
    if text.isascii() and text.isprintable():
        return text
    start = ""
    # It would change the character before the text.
    if _is_mark(text[0]):
        start = _escape(text[0])
        text = text[1:]
    text = text.translate(table)
    return start + _IN_CONTEXT.sub(lambda match: _in_context(match, _escape), text)


def _is_mark(char: str) -> bool:
    return category(char).startswith("M")


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x80:
        return _SHORT.get(char, f"\\x{code:02x}")
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


def _escape_of_bytes(char: str) -> str:
    # A surrogate stands for a byte that is not UTF-8.
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return _escape(char)


def _escape_json(char: str) -> str:
    # json has no escape for DEL, which is ASCII.
    if char <= "\x7f":
        return f"\\u{ord(char):04x}"
    return json.dumps(char)[1:-1]


def _mark_in_json(match: re.Match[str]) -> str:
    if _is_mark(match[0]):
        return _escape_json(match[0])
    return match[0]


class _Table(dict[int, str]):
    """For `str.translate`: what becomes of a code point.

    It is remembered for as many as a conversation usually has.
    """

    def __init__(self, escape: Callable[[str], str]) -> None:
        super().__init__()
        self._escape = escape

    def __missing__(self, code: int) -> str:
        char = chr(code)
        text = char
        # Those that depend on their neighbours are judged later.
        if not _is_safe(char) and not _IN_CONTEXT.fullmatch(char):
            text = self._escape(char)
        if len(self) < _REMEMBERED:
            self[code] = text
        return text


_TABLE = _Table(_escape)
_BYTES_TABLE = _Table(_escape_of_bytes)
_JSON_TABLE = _Table(_escape_json)


def _is_safe(char: str) -> bool:
    code = ord(char)
    if code in _SIGNS or (code in _PICTOGRAPHS and category(char) == "Cn"):
        return True
    return code not in _INVISIBLE and category(char) not in _ESCAPED_CATEGORIES


def _in_context(match: re.Match[str], escape: Callable[[str], str]) -> str:
    if _belongs(match):
        return match[0]
    return escape(match[0])


def _belongs(match: re.Match[str]) -> bool:
    """Returns whether an invisible character has a function in its place."""
    if len(match[0]) > 1:  # a flag
        return True
    at = match.start()
    before = match.string[at - 1 : at]
    after = match.string[at + 1 : at + 2]
    if not before:
        return False
    if match[0] in _JOINERS:
        return _joins(before, match[0], after)
    # These say how an emoji, or the digit of a keycap, is drawn.
    if match[0] in "\ufe0e\ufe0f":
        if category(before) in {"So", "Sm"} or before in "‼⁉〰":
            return True
        return before in "0123456789#*" and after == "\u20e3"
    # Variants of a Mongolian letter, and of a Chinese character.
    if "\u180b" <= match[0] <= "\u180f":
        return "\u1820" <= before <= "\u18aa"
    return name(before, "").startswith("CJK")


def _joins(before: str, joiner: str, after: str) -> bool:
    """Returns whether a joiner has a function between these two characters."""
    # After a virama it chooses a conjunct's form.
    if combining(before) == 9:
        return True
    following = after or " "
    # Letters that join, as in Persian.
    if bidirectional(before) == "AL" and bidirectional(following) == "AL":
        return True
    # An emoji that is made of several.
    return joiner == "\u200d" and category(following) in {"So", "Sm"} and _ends_emoji(before)


def _ends_emoji(char: str) -> bool:
    return category(char) in {"So", "Sk"} or char == "\ufe0f"
