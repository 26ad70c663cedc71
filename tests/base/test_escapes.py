"""Text from elsewhere: nothing of it moves a cursor, hides, or passes for something else."""

import json
import logging
import re
import sys
import unicodedata
from itertools import groupby

import pytest

from zaichik.base.escapes import LogFormatter, harmless, json_line, shown

SIGNS = set(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
INVISIBLE = set("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u180b\u180c\u180d\u180f")
SELECTORS = {chr(code) for code in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))}
RESERVED = range(0x1F000, 0x1FB00)
SEPARATOR = "<;;a"


def stays(char):
    """The decision for each general category, for a character behind a letter."""
    match unicodedata.category(char):
        case "Cc" | "Zl" | "Zp" | "Cs" | "Co":
            return False
        case "Cf":
            return char in SIGNS
        case "Cn":
            return ord(char) in RESERVED
        case _:
            return char not in INVISIBLE | SELECTORS


def each(function, chars):
    """What the function makes of each character, between letters: all in one text, since they are a
    million.
    """
    return function(SEPARATOR.join(["", *chars, ""])).split(SEPARATOR)[1:-1]


def where_categories_change():
    """Returns the first and last four characters of each run of one general category, and those of
    which the decision does not follow from it.
    """
    chosen = SIGNS | INVISIBLE | SELECTORS | {chr(code) for code in RESERVED}
    everything = map(chr, range(sys.maxunicode + 1))
    for _, group in groupby(everything, unicodedata.category):
        run = list(group)
        chosen.update(run[:4], run[-4:])
    return sorted(chosen)


@pytest.fixture(scope="module", params=["all", "where categories change"])
def every(request):
    """Every character there is; or some fifteen thousand, of each kind."""
    if request.param == "all":
        return [chr(code) for code in range(sys.maxunicode + 1)]
    return where_categories_change()


@pytest.fixture(scope="module")
def told(every):
    """Every character made harmless."""
    return each(harmless, every)


@pytest.mark.unmeasured
def test_every_code_point_is_shown_or_escaped_as_decided(every, told):
    assert [
        f"{ord(char):x}"
        for char, text in zip(every, told, strict=True)
        if (text == char) != stays(char)
    ] == []


@pytest.mark.unmeasured
def test_every_escape_is_plain_ascii_and_names_its_character(every, told):
    escape = re.compile(r"\\(n|r|t|x[0-7][0-9a-f]|u[0-9a-f]{4}|U000[0-9a-f]{5}|U0010[0-9a-f]{4})")
    for char, text in zip(every, told, strict=True):
        if text != char:
            assert escape.fullmatch(text)
            assert text.encode().decode("unicode_escape") == char


@pytest.mark.unmeasured
def test_no_two_values_are_shown_alike(every):
    assert len(set(each(shown, every))) == len(every)


def test_what_is_shown_is_an_escape_of_pythons():
    assert shown("\x1b") == "\\x1b"
    assert shown("\\x1b") == "\\\\x1b"
    assert shown("C:\\new") == "C:\\\\new"
    assert shown("\n\r\t\x7f\x9b\u2028\U000e0041") == "\\n\\r\\t\\x7f\\u009b\\u2028\\U000e0041"


def test_bytes_that_are_not_utf_8_differ_from_characters():
    assert shown(b"a\xffb") == "a\\xffb"
    assert shown("a\x9bb".encode()) == "a\\u009bb"
    assert shown(b"\x9b") == "\\x9b"
    assert shown(b"\\x9b") == "\\\\x9b"
    assert shown(b"\\udcff\xed\xb3\xbf") == "\\\\udcff\\xed\\xb3\\xbf"
    assert shown("\udcff") == "\\udcff"


@pytest.mark.parametrize(
    "text",
    [
        "naïve Ångström", "кириллица", "日本語　です", "한국어", "עברית", "العربية", "हिन्दी",
        "ไทย", "ქართული",
        # marks, parts of a letter
        "e\u0301", "Z\u0351\u036b\u0343", "q\u0307\u0323", "कि", "\u1100\u1161\u11a8",
        # joiners that scripts need
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "क्\u200dष", "ක්\u200dෂ",
        "☺", "❤\ufe0f", "👩🏽\u200d🚀", "👨\u200d👩\u200d👧", "🏳\ufe0f\u200d🌈",
        "🙂\u200d↔\ufe0f", "1\ufe0f\u20e3",
        "🇪🇺", "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "👍🏿", "‼\ufe0f",
        "葛\U000e0100", "ᠠ\u180b", "10\u00a0%", "\u0601123", "\U0001faff",
    ],
)  # fmt: skip
def test_letters_of_all_scripts_and_emoji_stay_as_they_are(text):
    assert shown(text) == harmless(text) == text
    assert shown(text.encode()) == text
    assert json_line(text) == f'"{text}"'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ad\u200dmin", "ad\\u200dmin"),
        ("ad\u200cmin", "ad\\u200cmin"),
        ("👩\u200da", "👩\\u200da"),
        ("👩\u200d", "👩\\u200d"),
        ("\u200d👩", "\\u200d👩"),
        ("\u200dد", "\\u200dد"),
        ("a\ufe0f", "a\\ufe0f"),
        ("7\ufe0f", "7\\ufe0f"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f\\ufe0f"),
        ("❤\ufe01", "❤\\ufe01"),
        ("\ufe0f", "\\ufe0f"),
        ("a\u180b", "a\\u180b"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u0338=", "\\u0338="),
        ("\u20e3", "\\u20e3"),
        ("🏴\U000e0067", "🏴\\U000e0067"),
        ("\x1b\u200d👩", "\\x1b\\u200d👩"),
    ],
)
def test_invisible_characters_out_of_place_are_escaped(text, told):
    assert shown(text) == harmless(text) == told
    assert json.loads(json_line(text)) == text
    assert told.count("\\") == json_line(text).count("\\u") - json_line(text).count("\\udc")


@pytest.mark.unmeasured
def test_json_is_the_same_value_and_as_safe(every):
    value = {
        "a".join(["", *every, ""]): every
    }  # in a name behind a letter, and each as a text of its own
    line = json_line(value)
    assert json.loads(line) == value
    assert harmless(line) == line


def test_json_is_escaped_as_json_is():
    assert json_line("\x7f\x9b\U000e0041\u2028") == '"\\u007f\\u009b\\udb40\\udc41\\u2028"'
    assert json_line("é", ascii_only=True) == '"\\u00e9"'


@pytest.mark.parametrize("text", ["", "plain", "two words"])
def test_plain_text_stays_as_it_is(text):
    assert shown(text) == harmless(text) == shown(text.encode()) == text


def test_safe_text_is_not_escaped_again():
    for text in ("a\x1b\\\n\u2028", "\u0338\u0338", "❤\ufe0f\ufe0f"):
        assert harmless(harmless(text)) == harmless(text)
        assert harmless(shown(text)) == shown(text)


def test_a_log_line_is_one_line_and_a_traceback_keeps_its_lines():
    error = ValueError("forged\x1b[2J")
    record = logging.LogRecord(
        "zaichik", logging.INFO, "", 0, "client %s came", ("a\nb\u202e",), (ValueError, error, None)
    )
    first, second = LogFormatter("%(levelname)s %(message)s").format(record).split("\n")
    assert first == "INFO client a\\nb\\u202e came"
    assert second == "ValueError: forged\\x1b[2J"
