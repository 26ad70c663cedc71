"""`zaichik dissect`."""

import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from zaichik_protocol import Hello, encode

VECTORS = Path(__file__).parents[2] / "protocol" / "vectors" / "frames.json"
PING = bytes.fromhex("10000000 07 00 0000 08000000 0102000000000000")


@pytest.fixture
def file(tmp_path):
    """A file of these bytes."""

    def write(data):
        path = tmp_path / "bytes"
        path.write_bytes(data)
        return str(path)

    return write


def test_every_field_is_explained(zaichik, file):
    result = zaichik("dissect", file(PING + PING))
    assert result.code == 0
    lines = result.out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "Ping: 20 bytes from 0 on",
        "Ping: 20 bytes from 20 on",
    ]
    assert lines[1].split(maxsplit=6)[:6] == ["0", "10", "00", "00", "00", "length"]
    assert lines[6].split() == [
        "12",
        "01",
        "02",
        "00",
        "00",
        "00",
        "00",
        "00",
        "00",
        "value",
        "513",
        "anything",
    ]


def test_json(zaichik, file):
    fields = zaichik("dissect", file(PING), "--json").json_lines
    assert [field["name"] for field in fields] == ["length", "type", "flags", "zero", "id", "value"]
    assert fields[-1] == {
        "offset": 12, "bytes": "0102000000000000", "frame": "Ping", "name": "value", "value": 513,
        "meaning": "anything", "problem": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    "data", [PING.hex().encode(), PING.hex(" ").upper().encode() + b"\n", b"\n"]
)
def test_hexadecimal_digits_are_recognised(zaichik, file, data):
    assert zaichik("dissect", file(data)).code == (0 if data.strip() else 1)
    assert zaichik("dissect", file(data), "--hex").code == (0 if data.strip() else 1)


@pytest.mark.parametrize("data", [b"xyz", b"123", b"\xff"])
def test_invalid_hexadecimal_digits(zaichik, file, data):
    result = zaichik("dissect", file(data), "--hex")
    assert (result.code, result.err) == (
        1,
        "zaichik: these are not hexadecimal digits, two for each byte\n",
    )


def test_a_cut_frame_is_explained_up_to_the_cut(zaichik, file):
    result = zaichik("dissect", file(encode(Hello(1, client="me"))[:-6]))
    assert result.code == 1
    marked = [line for line in result.out.splitlines() if "!!" in line]
    assert marked[-1].endswith("the frame is cut here: 6 bytes missing")
    fields = zaichik("dissect", file(PING[:15]), "--json").json_lines
    assert [bool(field["problem"]) for field in fields] == [False] * 5 + [True, True]


def test_no_bytes(zaichik, file):
    assert zaichik("dissect", file(b"")).err == "zaichik: there are no bytes to explain\n"


def test_no_file(zaichik):
    assert zaichik("dissect", "/nowhere").err == "zaichik: /nowhere: No such file or directory\n"


def test_all_golden_frames(zaichik, file):
    frames = b"".join(
        bytes.fromhex(case["hex"]) for case in json.loads(VECTORS.read_text(encoding="utf-8"))
    )
    result = zaichik("dissect", file(frames))
    assert result.code == 0
    assert "[(1, 10000), (2, 18446744073709551615), (3, 100…" in result.out
    assert "'client é'" in result.out
    assert zaichik("dissect", file(frames), "--json").code == 0


def test_a_pipe_is_not_laid_out_by_rich(zaichik, file):
    """Counted in calls of Python: a table of rich is 16,000 of them, and a capture of 400 kB has
    20,000 frames.
    """

    def calls(count):
        made = Counter()
        sys.setprofile(lambda _, event, __: made.update([event]))
        try:
            assert zaichik("dissect", file(PING * count)).code == 0
        finally:
            sys.setprofile(None)
        return made["call"]

    calls(100)  # what is imported, and compiled, the first time
    few, more = calls(100), calls(200)
    assert more - few < 100 * 1000


def test_a_pipe_and_a_terminal_get_the_same_content(zaichik, on_terminal, file):
    path = file(encode(Hello(1, client="é" * 10 + "名" * 10)) + PING)
    lines = re.sub(
        r"\x1b\[[\d;]*m", "", on_terminal("dissect", path, COLUMNS="200")[1]
    ).splitlines()
    assert [line.rstrip() for line in lines] == zaichik("dissect", path).out.splitlines()


def test_standard_input(start):
    process = start("dissect", "-")
    out, _ = process.communicate("10000000 07 00 0000 08000000 0100000000000000\n")
    assert process.returncode == 0
    assert out.startswith("Ping: 20 bytes from 0 on\n")


def test_a_terminal_is_told_that_input_is_read(on_terminal):
    code, text = on_terminal("dissect", "-", keys=PING.hex().encode() + b"\n\x04")
    assert code == 0
    assert "reading from the terminal; Ctrl-D ends the input" in text
    assert "\x1b[1mPing" in text


CANARY = "zk_" + "Canary-" * 6 + "x"


def hello(auth=1, user="", secret=CANARY):
    return encode(Hello(1, client="me", auth=auth, user=user, secret=secret))


def check_hidden(result, secret=CANARY):
    pieces = [secret[at : at + 4] for at in range(len(secret) - 3)]
    texts = (result.out, result.err, re.sub(r"\s", "", result.out))
    assert not [
        text for text in texts for piece in pieces if piece in text or piece.encode().hex() in text
    ]


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["lines", "json"])
def test_a_secret_is_shown_by_its_length_alone(zaichik, file, options):
    result = zaichik("dissect", file(hello()), *options)
    assert result.code == 0
    assert "46 bytes" in result.out
    check_hidden(result)


def test_a_secret_is_hidden_on_a_terminal(on_terminal, file):
    code, out = on_terminal("dissect", file(hello()))
    assert (code, "secret" in out, "Canary" in out, b"Cana".hex(" ") in out) == (
        0,
        True,
        False,
        False,
    )


def test_a_hello_without_a_secret_is_shown_as_it_is(zaichik, file):
    assert zaichik("dissect", file(hello(0, secret="")), "--json").json_lines[-1] == {
        "offset": 35, "bytes": "0000", "frame": "Hello", "name": "secret", "value": "",
        "meaning": "token or password; empty with auth 0", "problem": "",
    }  # fmt: skip


@pytest.mark.unmeasured  # a thousand times what the other tests run
@pytest.mark.parametrize("step", [1, 13], ids=["all", "some"])
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["lines", "json"])
def test_no_hello_that_is_cut_or_wrong_shows_a_secret(zaichik, file, options, step):
    """Wherever it is cut, whatever length a text says it has, and with bytes before or after the
    secret.
    """
    data = hello(2, "ana")
    wrong = [data[:end] for end in range(12, len(data))]
    for at in (28, 33, 38):  # client, user and secret begin with their lengths
        wrong += [
            data[:at] + bytes([length, high]) + data[at + 2 :]
            for length in range(256)
            for high in (0, 255)
        ]
    wrong = wrong[::step]
    longer = bytes([data[0] + 3]) + data[1:]
    wrong += [longer + b"123", data[:12] + b"GET " + data[16:], data[:-3] + b"\xff\xfe\xfd"]
    for one in wrong:
        check_hidden(zaichik("dissect", file(one), *options))
