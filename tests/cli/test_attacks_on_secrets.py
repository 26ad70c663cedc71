"""One token and one password, looked for everywhere that anybody but their owner can look."""

import base64
import json
import pickle
import signal
import traceback
from contextlib import suppress
from pathlib import Path

import pytest

from zaichik import AuthFailed, ConnectFailed, ZaichikError, endpoint
from zaichik.client import blocking
from zaichik_protocol import Hello, encode

TOPIC = "orders"


class Canary:
    """A secret, and where it was seen."""

    def __init__(self, text):
        self.text = text
        data = text.encode()
        self._looks = [
            data,
            data.removeprefix(b"zk_")[:20],
            data.hex().encode(),
            base64.b64encode(data)[:40],
        ]
        self._looks.append(text.encode("utf-16-le"))

    def is_in(self, found):
        data = found if isinstance(found, bytes) else str(found).encode(errors="surrogateescape")
        return any(look in data for look in self._looks)

    def files_with_it(self, folder):
        """Which files have it, by their paths in the folder."""
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert files
        return {str(path.relative_to(folder)) for path in files if self.is_in(path.read_bytes())}


@pytest.fixture
def at_home(monkeypatch, tmp_path):
    """Everything that is kept for the user of the commands."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    return home


@pytest.fixture
def served(start, tmp_path, at_home):
    """A broker that logs all there is to log, and has durable topics; and the line to log in."""
    log = (tmp_path / "broker.log").open("w")
    options = [
        "--init-access",
        str(tmp_path / "access"),
        "--data",
        str(tmp_path / "data"),
        "--log-level",
        "debug",
    ]
    process = start("serve", "--port", "0", "--json", *options, stderr=log)
    log.close()
    told = json.loads(process.stdout.readline())
    return process, endpoint(told["logins"]["class"])


def arguments_of_all_processes():
    found = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            found += path.read_bytes() + b"\n"
    return found


@pytest.mark.unmeasured
@pytest.mark.skipif(
    not Path("/proc/self/cmdline").exists(), reason="what processes were started with is in /proc"
)
def test_a_token_is_in_no_argument_no_log_and_no_file_but_its_owners(
    served, start, zaichik, tmp_path, at_home
):
    process, line = served
    canary = Canary(line.credentials.secret)
    outputs = []

    def here(*words):
        result = zaichik(*words)
        outputs.extend([result.out, result.err])

    def program(*words):
        running = start(*words)
        seen = arguments_of_all_processes()
        outputs.extend([seen, *running.communicate()])
        assert b"zaichik" in seen

    start("login").communicate(line.line + "\n")
    following = start("subscribe", TOPIC, "--name", "n", "--json")
    program("create", TOPIC, "--durable", "--json")
    here("create", "kept", "--journal-bytes", "1MiB")
    program("publish", TOPIC, "x", "--json")
    here("publish", "kept", "x")
    here("publish", "$broker", "x")
    here("describe")
    here("describe", "--json")
    here("describe", TOPIC, "--json")
    here("topics", "--json")
    program("record", TOPIC, "kept", "--into", str(tmp_path / "recording"), "--json")
    here("delete", TOPIC)
    here("disconnect", "1")
    here("login", "--remove")
    here("publish", TOPIC, "x")
    following.send_signal(signal.SIGINT)
    outputs += following.communicate()
    process.send_signal(signal.SIGHUP)
    process.terminate()
    outputs += process.communicate()
    assert not [output for output in outputs if canary.is_in(output)]
    assert canary.files_with_it(tmp_path) == set()
    log = (tmp_path / "broker.log").read_text()
    assert "login_ok user=class how=token:" in log
    assert (tmp_path / "recording").exists()


@pytest.mark.unmeasured
def test_a_login_that_is_kept_is_kept_in_one_file(served, start, tmp_path, at_home):
    _, line = served
    start("login").communicate(line.line + "\n")
    assert Canary(line.credentials.secret).files_with_it(tmp_path) == {
        "home/config/zaichik/login.json"
    }
    assert (at_home / "config/zaichik/login.json").stat().st_mode & 0o077 == 0


WRONG = [
    "{line}",
    "zaichik://{token}@",
    "{token}",
    "{token}@127.0.0.1:1",
    "zaichiks://{token}x@127.0.0.1:1",
    "x{line}",
]


@pytest.mark.parametrize("form", WRONG)
@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_secret_in_the_wrong_place_is_not_repeated(zaichik, monkeypatch, form, how):
    token = "zk_" + "Canary" * 7 + "x"
    text = form.format(line=f"zaichiks://{token}@127.0.0.1:1?pin=sha256:{'0' * 64}", token=token)
    if how == "environment":
        monkeypatch.setenv("ZAICHIK_CONNECT", text)
    result = zaichik("topics", *(["--connect", text] if how == "argument" else []))
    assert result.code != 0
    assert not Canary(token).is_in(result.out + result.err)


# -- inside a program ----------------------------------------------------------------------------


def with_token(port):
    return endpoint(f"zaichiks://{TOKEN}@127.0.0.1:{port}?pin=sha256:{'0' * 64}")


TOKEN = "zk_" + "C4nary-" * 6 + "x"


def failed(*arguments, **options):
    try:
        with blocking.connect(*arguments, **options):
            raise AssertionError("it was let in")
    except ZaichikError as error:
        return error


def test_what_a_program_shows_of_its_login_has_no_secret(served, caplog):
    """`repr`, errors with their tracebacks, pickles of errors, and the log, at debug level."""
    caplog.set_level("DEBUG")
    _, line = served
    wrong = endpoint(line.line.replace(line.credentials.secret, TOKEN))
    errors = [failed(wrong, reconnect=0), failed(with_token(line.port))]
    assert [type(error) for error in errors] == [AuthFailed, ConnectFailed]
    shown = [
        repr(wrong),
        str(wrong),
        repr(wrong.credentials),
        repr(Hello(1, auth=1, secret=TOKEN)),
        caplog.text,
    ]
    shown += [str(Hello(1, auth=1, secret=TOKEN))]
    for error in errors:
        shown += ["".join(traceback.format_exception(error)), repr(error), pickle.dumps(error)]
    with blocking.connect(line) as client:
        shown += [repr(client), str(vars(client)), str(client.describe()), str(client.topics())]
    for secret in (TOKEN, line.credentials.secret):
        assert not [it for it in shown if Canary(secret).is_in(it)]


def test_dissect_shows_how_long_a_secret_is(zaichik, tmp_path):
    for secret in (TOKEN, "correct horse battery"):
        data = encode(Hello(1, auth=1, user="ana", secret=secret))
        (tmp_path / "bytes").write_bytes(data)
        for words in (["dissect"], ["dissect", "--json"]):
            result = zaichik(*words, str(tmp_path / "bytes"))
            assert "secret" in result.out
            assert not Canary(secret).is_in(result.out + result.err)


def test_no_command_shows_the_variables_of_a_traceback():
    """Rich would print a secret that was one."""
    root = Path(__file__).parents[2] / "zaichik"
    assert not [
        path for path in root.rglob("*.py") if "show_locals" in path.read_text(encoding="utf-8")
    ]
