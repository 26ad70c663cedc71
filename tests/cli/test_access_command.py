"""`zaichik access allow`: what a front end needs, in one command."""

import re

import anyio
import pytest
from mqtt_clients import mqtt_gateway

from zaichik.cli.access_folder import dump, locked, write
from zaichik.cli.front_end_rules import RECIPES, rules_for
from zaichik.server.access.rules import Rules
from zaichik.server.access.users import Users

LAX = "user ana\nallow all *\n"


@pytest.fixture
def folder(tmp_path):
    """One in which a user may do everything."""
    path = tmp_path / "access"
    path.mkdir(mode=0o700)
    with locked(path) as descriptor:
        write(descriptor, "users.json", dump(Users()))
        write(descriptor, "rules", LAX.encode())
    return path


@pytest.fixture
def may(folder):
    """Ask the rules in the folder."""

    def ask(user, action, topic):
        return Rules.parse((folder / "rules").read_bytes()).of(user).may(action, topic)

    return ask


def test_the_front_end_gets_a_user_and_its_topics_and_nobody_else_has_these(zaichik, folder, may):
    result = zaichik("access", "allow", str(folder), "mqtt", "gateway", "orders")
    assert result.code == 0
    assert re.fullmatch(r"zk_[A-Za-z0-9_-]{43}\n", result.out)
    assert "have the broker read them: kill -HUP PID" in result.err
    assert "gateway" in Users.parse((folder / "users.json").read_bytes()).by_name
    for topic in ("mqtt", "mqtt/sessions", "mqtt/retained", "mqtt/wills", "mqtt/gateway", "orders"):
        assert may("gateway", "publish", topic)
        assert may("gateway", "create", topic)
    for action in ("publish", "subscribe", "create", "delete"):
        assert not may("ana", action, "mqtt/sessions")
    assert may("ana", "describe", "mqtt/sessions")
    assert may("ana", "publish", "mqtt")
    assert not may("gateway", "publish", "other")
    assert (folder / "rules").read_text().endswith(LAX)


def test_what_is_there_already_stays(zaichik, folder):
    zaichik("access", "allow", str(folder), "kafka", "gateway")
    before = [(folder / name).read_bytes() for name in ("rules", "users.json")]
    result = zaichik("access", "allow", str(folder), "kafka", "gateway")
    assert (result.code, result.out) == (0, "")
    assert "its rules are there already" in result.err
    assert "gateway: there already" in result.err
    assert [(folder / name).read_bytes() for name in ("rules", "users.json")] == before


def test_two_front_ends_do_not_take_each_others_topics(zaichik, folder, may):
    zaichik("access", "allow", str(folder), "mqtt", "devices")
    zaichik("access", "allow", str(folder), "kafka", "logs")
    zaichik("access", "allow", str(folder), "metrics", "prometheus")
    assert may("devices", "publish", "mqtt/wills")
    assert may("logs", "publish", "kafka/offsets")
    assert not may("devices", "publish", "kafka/offsets")
    assert may("prometheus", "describe", "$broker")
    assert not may("prometheus", "subscribe", "orders")


def test_a_user_who_loses_its_topics_to_another_is_named(zaichik, folder, may):
    zaichik("access", "allow", str(folder), "kafka", "gateway")
    result = zaichik("access", "allow", str(folder), "kafka", "gatewya")
    assert "warning: gateway may no longer write to kafka/*: gatewya may" in result.err
    assert "ana" not in result.err
    assert not may("gateway", "publish", "kafka/offsets")
    assert "warning" not in zaichik("access", "allow", str(folder), "mqtt", "gateway").err


def test_a_topic_with_odd_letters_is_quoted(zaichik, folder, may):
    assert zaichik("access", "allow", str(folder), "mqtt", "gateway", 'a # "b"').code == 0
    assert may("gateway", "publish", 'a # "b"')


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([], 2, "write FRONTEND USER"),
        (["mqtt"], 2, "write FRONTEND USER"),
        (["amqp", "gateway"], 2, "'amqp' is no front end with rules"),
        (["kafka", "gateway", "orders"], 2, "zaichik kafka takes no topics here"),
        (["mqtt", "Gateway"], 1, "a user's name has 1 to 64 letters"),
        (["mqtt", "gateway", "a*b"], 1, "* stands for the rest of a name"),
        (["mqtt", "gateway", "orders*"], 2, "'orders*' is not a topic for --tree"),
        (["mqtt", "gateway", "$broker"], 2, "'$broker' is not a topic for --tree"),
        (["mqtt", "gateway", ""], 2, "'' is not a topic for --tree"),
    ],
)
def test_what_is_wrong_changes_nothing(zaichik, folder, words, code, told):
    result = zaichik("access", "allow", str(folder), *words)
    assert (result.code, result.out) == (code, "")
    assert told in result.err
    assert (folder / "rules").read_text() == LAX
    assert Users.parse((folder / "users.json").read_bytes()).users == ()


def test_rules_that_cannot_be_read_are_not_changed(zaichik, folder):
    (folder / "rules").write_text("user *\nalow all *\n")
    result = zaichik("access", "allow", str(folder), "mqtt", "gateway")
    assert result.code == 1
    assert f"{folder}/rules:2:1: a line cannot begin with 'alow'" in result.err
    assert (folder / "rules").read_text() == "user *\nalow all *\n"


def test_with_these_rules_mqtts_gateway_serves_a_user_who_may_do_everything_else():
    rules = rules_for(RECIPES["mqtt"], "gateway", []) + LAX
    users = {"ana": f"zk_{'b' * 43}"}

    async def publish():
        async with (
            mqtt_gateway(rules, users=users) as running,
            running.connected(username="ana", password=users["ana"].encode()) as client,
        ):
            await client.publish("home/temp", b"21.5", 2, retain=True)
            await client.subscribe("home/#")
            assert (await client.message()).payload == b"21.5"

    anyio.run(publish)
