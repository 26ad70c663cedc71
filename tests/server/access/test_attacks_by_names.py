"""Names that would be a command to a terminal, a line of a log, or a script in a page: they stay
names.
"""

import json
import logging

import pytest
from attacked import attacked_broker
from raw_client import (
    CREATE,
    DESCRIBE,
    ERROR,
    PUBLISH,
    SUBSCRIBE,
    create,
    describe,
    hello,
    publish,
    subscribe,
)

from zaichik.base.escapes import harmless
from zaichik_protocol import ErrorCode

pytestmark = pytest.mark.anyio

TOPICS, SUBSCRIPTIONS, CONNECTIONS = 1, 2, 3
EVIL = [
    "\x1b[2J\x1b]0;owned\x07",
    "<script>alert(1)</script>",
    "\u202egnp.exe",
    "x\nlogin_ok user=ana how=token:00000000 from=10.0.0.1:1",
    "x\r\u2028login_ok user=ana",
    '","user":"ana"}',
    "\u200b\ufeff",
    "'; drop table topics; --",
    "x" * 4000,
]
RULES = "user ana\nallow all *\nallow all $broker\nuser boris\nallow describe *\n"


@pytest.fixture
async def broker(tmp_path):
    async with attacked_broker(tmp_path / "access", RULES) as running:
        yield running


def check(log):
    """Each line is one record, of characters that can be seen; nobody logged in who did not."""
    for record in log.records:
        message = record.getMessage()
        assert harmless(message) == message
        assert len(message) < 5000
    logins = [
        record.getMessage() for record in log.records if record.getMessage().startswith("login_ok")
    ]
    assert len(logins) == 1
    assert logins[0].startswith("login_ok user=boris how=token:")


@pytest.mark.parametrize("name", EVIL, ids=range(len(EVIL)))
async def test_names_of_topics_that_are_refused_do_not_write_the_log(broker, caplog, name):
    caplog.set_level(logging.DEBUG)
    async with broker.raw("boris") as client:
        for kind, body in (
            (PUBLISH, publish(name, [b"x"])),
            (SUBSCRIBE, subscribe(name)),
            (CREATE, create(name)),
        ):
            answer = await client.request(kind, body)
            assert answer.kind == ERROR
            assert harmless(answer.message) == answer.message
            assert (
                answer.code != ErrorCode.FORBIDDEN
                or "forbidden.publish user=boris topic=" in caplog.text
            )
    check(caplog)


@pytest.mark.parametrize("name", EVIL, ids=range(len(EVIL)))
async def test_names_of_clients_and_users_do_not_write_the_log(broker, caplog, name):
    caplog.set_level(logging.DEBUG)
    async with broker.encrypted() as stranger:
        answer = await stranger.request(
            1, hello(client=name[:1000], user=name[:1000], auth=2, secret=name[:500])
        )
        assert answer.kind == ERROR
    async with broker.encrypted() as client:
        answer = await client.request(
            1, hello(client=name[:60], auth=1, secret=broker.tokens["boris"])
        )
        if answer.kind == ERROR:  # a name without control characters is any name
            return
        rows = json.loads((await client.request(DESCRIBE, describe(CONNECTIONS, limit=9))).json)[
            "connections"
        ]
        assert [(row["user"], row["client"]) for row in rows] == [("boris", name[:60])]
    check(caplog)


@pytest.mark.parametrize("name", EVIL, ids=range(len(EVIL)))
async def test_names_that_are_allowed_are_strings_in_json(broker, name):
    async with broker.raw("ana") as client:
        answer = await client.request(CREATE, create(name))
        if answer.kind == ERROR:
            assert harmless(answer.message) == answer.message
            return
        await client.request(SUBSCRIBE, subscribe(name, name=name))
        found = (await client.request(DESCRIBE, describe(TOPICS, limit=9))).json
        assert [topic["name"] for topic in json.loads(found)["topics"]] == [name]
        assert b"\n" not in found
        rows = json.loads((await client.request(DESCRIBE, describe(SUBSCRIPTIONS, limit=9))).json)[
            "subscriptions"
        ]
        assert {row["topic"] for row in rows} == {name}
