"""What nobody could mean, or no broker be asked for, ends with one line and the exit code for wrong
usage.
"""

import subprocess
import sys

import pytest

from zaichik.cli.main import WRONG_USAGE

HUGE = ["18446744073709551615", "18446744073709551616", "99999999999999999999999999", "9" * 5000]


def check(result, *, told):
    assert (result.code, result.out, result.err.count("\n")) == (WRONG_USAGE, "", 1)
    assert result.err.startswith("zaichik: ")
    assert told in result.err
    assert "Error in path" not in result.err


@pytest.mark.parametrize("number", HUGE, ids=lambda number: number[:30])
@pytest.mark.parametrize(
    "words",
    [
        ["subscribe", "t", "--credit"],
        ["subscribe", "t", "--until"],
        ["subscribe", "t", "--from"],
        ["subscribe", "t", "--count"],
        ["create", "t", "--retention"],
        ["create", "t", "--compaction-window"],
        ["create", "t", "--capacity"],
        ["create", "t", "--max-bytes"],
        ["create", "t", "--max-keys"],
        ["create", "t", "--journal"],
        ["publish", "t", "--reconnect"],
        ["serve", "--port"],
        ["serve", "--capacity"],
        ["serve", "--retention"],
        ["serve", "--limit", "max_topics="],
        ["stats", "t", "--windows"],
        ["stats", "t", "--most-lost"],
        ["demo", "--days"],
        ["learn", "check", "--seed"],
        ["learn", "check", "--repeat"],
        ["learn", "check", "--time-scale"],
        ["topics", "--connect", "127.0.0.1:"],
    ],
    ids=lambda words: f"{words[0]} {words[-1]}",
)
def test_a_number_that_is_too_large(zaichik, words, number):
    *others, last = words
    words = [*others, last + number] if last[-1] in "=:" else [*others, last, number]
    check(zaichik(*words), told="--limit" if "--limit" in words else words[-2])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["subscribe", "t", "--credit", "4294967296"], "the largest is 4294967295"),
        (["create", "t", "--retention", "213503982334602d"], "is too long; write forever"),
        (["create", "t", "--max-bytes", "99999999TiB"], "is too large"),
        (["create", "t", "--max-bytes", "99999999.5TiB"], "is too large"),
        (
            ["stats", "t", "--windows", "0.0000001s"],
            "0.0000001s is not a window; write one from 1ms to 36525d, or forever",
        ),
        (["stats", "t", "--windows", "36526d"], "36526d is not a window"),
        (["stats", "t", "--windows", "1m,0"], "0 is not a window"),
        (["stats", "t", "--most-lost", "nan"], "is not a percentage"),
        (["learn", "check", "--time-scale", "nan"], "is not a time scale"),
    ],
)
def test_a_number_just_out_of_range(zaichik, words, told):
    check(zaichik(*words), told=told)


@pytest.mark.parametrize(
    "name", ["x" * 65_536, "x" * 70_000, "д" * 32_768, "\udcff"], ids=lambda name: ascii(name[:2])
)
@pytest.mark.parametrize(
    "words",
    [
        ["publish", "{}", "x"],
        ["subscribe", "{}"],
        ["subscribe", "t", "--name", "{}"],
        ["create", "{}"],
        ["describe", "{}"],
        ["topics", "{}"],
        ["record", "t", "{}"],
        ["delete", "{}"],
    ],
    ids=" ".join,
)
def test_a_name_that_no_topic_can_have(zaichik, words, name):
    check(zaichik(*(word.format(name) for word in words)), told="name")


def test_a_reader_s_name_that_is_empty(zaichik):
    """As it is if a script's variable was never set: read without a name, it would begin anew each
    time.
    """
    check(zaichik("subscribe", "t", "--name", ""), told="--name: '' is no name; leave --name out")


def test_two_folders_of_users(zaichik):
    """Only one of them could say who is let in."""
    check(
        zaichik("serve", "--access", "a", "--init-access", "b"),
        told="--init-access: not allowed with argument --access",
    )


@pytest.fixture
def shell(broker, monkeypatch, tmp_path):
    """Run a command in a shell that closes streams; exit code and what came."""
    monkeypatch.setenv("ZAICHIK_CONNECT", broker)

    def run(line):
        command = f"exec {sys.executable} -m zaichik {line}"
        done = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=tmp_path,
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.parametrize("line", ["topics", "topics --json", "--help", "publish t x", "describe"])
def test_without_standard_output_there_is_one_line(shell, line):
    assert shell(f"{line} >&-") == (
        2,
        "",
        "zaichik: standard output is closed; to discard it: >/dev/null\n",
    )
    assert shell(f"{line} >&- 2>&- <&-") == (2, "", "")


@pytest.mark.parametrize("line", ["publish t", "publish t --file -", "dissect -"])
def test_without_standard_input_commands_that_read_it_say_so(shell, line):
    code, out, err = shell(f"{line} <&-")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("zaichik: standard input is closed")


@pytest.mark.unmeasured
def test_without_standard_input_other_commands_work(shell):
    assert shell("publish t x <&-")[:2] == (0, "")
    assert shell("learn list --json <&-")[0] == 0


@pytest.mark.unmeasured
def test_without_standard_error_results_stay_alone(shell):
    assert shell("publish t x 2>&-") == (0, "", "")
    assert shell("publish t x --json 2>&-")[1].startswith('{"topic": "t"')
    assert shell("subscribe t --from 99999 2>&-") == (1, "", "")
    assert shell("nonsense 2>&-") == (2, "", "")


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            '{"id": "\\ud800"}',
            r"message 1 has a key with a lone surrogate, which UTF-8 cannot carry: \ud800",
        ),
        ("[" * 100_000, "message 1 is nested too deeply to find a key in it"),
        ('{"id":' * 100_000, "message 1 is nested too deeply to find a key in it"),
    ],
    ids=["surrogate", "brackets", "objects"],
)
def test_a_message_that_json_cannot_be_read_from(zaichik, topic, tmp_path, message, told):
    """Bad data, as any line that is not JSON."""
    (tmp_path / "lines").write_text(message)
    result = zaichik("publish", topic, "--key-json", "id", "--file", str(tmp_path / "lines"))
    assert (result.code, result.err) == (1, f"zaichik: {told}\n")


def test_a_long_sentence_is_wrapped_between_words_on_a_terminal(on_terminal):
    code, output = on_terminal("replay", "flight", "--until", "tomorrow", TERM="dumb")
    assert code == WRONG_USAGE
    assert max(map(len, output.splitlines())) <= 80
    assert " ".join(output.split()).endswith("forever or seconds (see: zaichik replay --help)")
