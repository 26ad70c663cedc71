"""`zaichik dead`, with a broker."""

import signal

import pytest

from zaichik.client.client import Client
from zaichik.client.errors import Unsupported
from zaichik.client.work.dead import DeadMessage
from zaichik_protocol import Dead, Error, ErrorCode

pytestmark = pytest.mark.usefixtures("connected")

KEPT = (
    "--retention",
    "forever",
    "--overflow",
    "reject",
    "--capacity",
    "100",
    "--max-bytes",
    "1MiB",
)
NAME = ("--name", "n")


@pytest.fixture
def topic(zaichik, topic):
    """A topic that loses nothing, and takes little room."""
    zaichik("create", topic, *KEPT)
    return topic


@pytest.fixture
def kill(start, zaichik, topic):
    """Publish messages that a worker rejects; those that begin with "good" are done."""

    def run(*payloads, key="k"):
        zaichik("publish", topic, "--key", key, *payloads)
        script = 'read x; case "$x" in good*) exit 0;; *) echo "no such $x" >&2; exit 65;; esac'
        words = ("work", topic, *NAME, "--until-empty", "--", "sh", "-c", script)
        start(*words).communicate()

    return run


@pytest.fixture
def dead(zaichik, topic):
    def run(*options):
        return zaichik("dead", topic, *NAME, *options)

    return run


def offsets(result):
    return [row["offset"] for row in result.json_lines]


def payloads(zaichik, topic, count):
    lines = zaichik("subscribe", topic, "--count", str(count), "--json").json_lines
    return [(line["key"], line["payload"]) for line in lines]


class TestAList:
    def test_has_a_line_for_each(self, kill, dead):
        """SHR-11."""
        kill("cat", "good", "dog")
        first, second = dead().out.splitlines()
        offset, _, _, *rest = first.split()
        assert (offset, " ".join(rest)) == ("0", "1 delivery exit code 65: no such cat")
        assert second.split()[0] == "2"

    def test_reasons_are_escaped(self, kill, dead):
        """SHR-11: they come from a program."""
        kill("\x1b[2J")
        assert dead().out.endswith("exit code 65: no such \\x1b[2J\n")

    def test_in_json(self, kill, dead, topic):
        kill("cat")
        row = dead("--json").json
        assert row.pop("died") > 1_700_000_000
        assert row == {
            "topic": topic,
            "offset": 0,
            "deliveries": 1,
            "reason": "exit code 65: no such cat",
            "readable": True,
        }

    def test_says_what_can_no_longer_be_read(self, dead, monkeypatch, patchable):
        async def found(self, topic, name, *, user):
            return [DeadMessage(3, 2, 1.5, "no such image", is_readable=False)]

        monkeypatch.setattr(Client, "dead", found)
        assert dead().out.endswith("2 deliveries  gone  no such image\n")

    def test_without_any(self, kill, dead, topic):
        kill("good")
        result = dead()
        assert (result.code, result.out) == (0, "")
        assert result.err == f"{topic}, n: no message is dead\n"
        assert (dead("--json").out, dead("--json").err) == ("", "")

    def test_that_follows_has_those_that_die_later(self, start, kill, topic):
        kill("cat")
        process = start("dead", topic, *NAME, "--follow")
        assert process.stdout.readline().endswith("no such cat\n")
        kill("dog")
        assert process.stdout.readline().endswith("no such dog\n")
        process.send_signal(signal.SIGINT)
        assert process.communicate()[0] == ""
        assert process.returncode == 130

    def test_of_a_name_that_is_not_there(self, dead, topic):
        """SHR-11: looking makes no name."""
        result = dead()
        assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
        assert "NO_SUCH_NAME" in result.err
        assert dead().code == 1

    def test_of_a_topic_that_is_not_there(self, zaichik):
        result = zaichik("dead", "nowhere", *NAME)
        assert (result.code, "NO_SUCH_TOPIC" in result.err) == (1, True)

    def test_of_a_broker_that_has_none(self, dead, monkeypatch, patchable):
        async def found(self, topic, name, *, user):
            error = Error(1, ErrorCode.UNSUPPORTED, Dead.TYPE, "type", 0, "not known here")
            raise Unsupported(error)

        monkeypatch.setattr(Client, "dead", found)
        result = dead()
        assert (result.code, "is too old to share names among workers" in result.err) == (1, True)


class TestReviving:
    def test_some_are_tried_again(self, kill, dead, topic):
        """SHR-5."""
        kill("cat", "dog", "hare")
        result = dead("--revive", "0", "2")
        assert (result.code, result.out) == (0, f"{topic}, n: 2 messages revived\n")
        assert offsets(dead("--json")) == [1]

    def test_all_are_tried_again(self, kill, dead, topic):
        kill("cat", "dog")
        assert dead("--revive", "--json").json == {"topic": topic, "name": "n", "revived": 2}
        assert dead("--json").out == ""

    def test_what_is_not_dead_is_not_revived(self, kill, dead, topic):
        kill("good", "cat")
        result = dead("--revive", "0", "1", "77")
        assert (result.code, result.out) == (1, f"{topic}, n: 1 message revived\n")
        assert result.err.startswith("zaichik: 2 of them could not be revived: not dead, ")


class TestForgetting:
    def test_some(self, kill, dead, topic):
        """SHR-5."""
        kill("cat", "dog")
        result = dead("--forget", "1")
        assert (result.code, result.out) == (0, f"{topic}, n: 1 message forgotten\n")
        assert offsets(dead("--json")) == [0]

    def test_all(self, kill, dead, topic):
        kill("cat", "dog")
        assert dead("--forget", "--json").json == {"topic": topic, "name": "n", "forgotten": 2}
        assert dead("--json").out == ""

    def test_what_is_not_dead(self, kill, dead):
        kill("cat")
        result = dead("--forget", "0", "1")
        assert (result.code, result.err) == (
            1,
            "zaichik: 1 of them could not be forgotten: not dead\n",
        )

    def test_the_name_with_everything(self, kill, dead, topic, zaichik):
        """SHR-9."""
        kill("cat")
        assert dead("--forget-name").out == f"{topic}, n: the name is forgotten\n"
        assert zaichik("describe", topic, "--json").json["subscriptions"] == []
        kill("good")
        assert dead("--forget-name", "--json").json == {
            "topic": topic,
            "name": "n",
            "forgotten_name": True,
        }

    def test_not_a_name_that_has_workers(self, start, kill, dead, zaichik, topic):
        """SHR-9."""
        zaichik("publish", topic, "x")
        worker = start(
            "work", topic, *NAME, "--", "sh", "-c", "while echo started; do sleep 0.1; done"
        )
        worker.stdout.readline()
        result = dead("--forget-name")
        assert (result.code, "NOT_EMPTY" in result.err) == (1, True)


class TestExporting:
    @pytest.fixture
    def to(self, zaichik, topic):
        """A topic for what is dead."""
        name = f"{topic}.failed"
        zaichik("create", name, *KEPT)
        return name

    def test_copies_keys_and_payloads(self, kill, dead, zaichik, topic, to):
        """SHR-5."""
        kill("cat", "good", "dog", "hare")
        result = dead("--export", to)
        assert (result.code, result.out) == (0, f"{topic}, n: 3 messages copied to {to}\n")
        assert payloads(zaichik, to, 3) == [("k", "cat"), ("k", "dog"), ("k", "hare")]
        assert offsets(dead("--json")) == [0, 2, 3]

    def test_moves_them_if_they_are_forgotten(self, kill, dead, zaichik, topic, to):
        kill("cat", "dog")
        result = dead("--export", to, "--forget", "--json")
        assert result.json == {"topic": topic, "name": "n", "moved": 2}
        assert payloads(zaichik, to, 2) == [("k", "cat"), ("k", "dog")]
        assert dead("--json").out == ""

    def test_moves_some(self, kill, dead, zaichik, to):
        kill("cat", "dog")
        dead("--export", to, "--forget", "1")
        assert payloads(zaichik, to, 1) == [("k", "dog")]
        assert offsets(dead("--json")) == [0]

    def test_makes_no_topic_for_what_is_not_dead(self, kill, dead, zaichik, topic):
        kill("cat")
        result = dead("--export", f"{topic}.none", "--forget", "0", "99")
        assert (result.code, result.out) == (1, "")
        assert result.err.endswith("zaichik: not dead: 99\n")
        assert zaichik("describe", f"{topic}.none").code != 0
        assert offsets(dead("--json")) == [0]

    def test_goes_on_as_more_die(self, start, kill, dead, zaichik, topic, to):
        kill("cat")
        process = start("dead", topic, *NAME, "--export", to, "--forget", "--follow")
        assert process.stdout.readline() == f"{topic}, n: 1 message moved to {to}\n"
        kill("dog")
        assert process.stdout.readline() == f"{topic}, n: 1 message moved to {to}\n"
        process.terminate()
        assert process.wait() == 130
        assert payloads(zaichik, to, 2) == [("k", "cat"), ("k", "dog")]

    def test_says_what_is_gone(self, kill, dead, topic, to, monkeypatch, patchable):
        async def found(self, topic, name, *, user):
            return [DeadMessage(0, 1, 1.5, "", is_readable=False)]

        kill("cat")
        monkeypatch.setattr(Client, "dead", found)
        result = dead("--export", to)
        assert (result.code, result.out) == (1, f"{topic}, n: 0 messages copied to {to}\n")
        assert result.err.endswith("\nzaichik: 1 message can no longer be read\n")

    def test_makes_the_topic_so_that_it_loses_nothing(self, kill, dead, zaichik, topic):
        """SHR-9: a topic as it comes would keep none of them."""
        kill("cat")
        name = f"{topic}.made"
        result = dead("--export", name)
        assert f"{name} can lose jobs: a restart of the broker loses everything. " in result.err
        settings = zaichik("describe", name, "--json").json["topic"]["settings"]
        assert settings["overflow"] == 1
        zaichik("delete", name)


class TestWrongUsage:
    @pytest.mark.parametrize(
        ("options", "text"),
        [
            (["--revive", "--forget"], "give either --revive or --forget"),
            (["--revive", "--export", "x"], "give either --revive or --export"),
            (["--forget-name", "--export", "x"], "give either --forget-name or --export"),
            (["--forget", "--forget-name"], "give either --forget or --forget-name"),
            (["--revive", "--follow"], "--follow is for a list, or for --export"),
            (["--export", "x", "--forget", "1", "--follow"], "leave the offsets out"),
            (["--revive", "one"], "'one' is not a whole number"),
        ],
    )
    def test_options_that_contradict_each_other(self, dead, options, text):
        result = dead(*options)
        assert (result.code, result.out) == (2, "")
        assert text in result.err

    def test_a_copy_in_the_same_topic(self, dead, topic):
        result = dead("--export", topic)
        assert (result.code, "would be worked on again" in result.err) == (2, True)

    def test_no_name(self, zaichik, topic):
        assert zaichik("dead", topic).code == 2
