"""Logins: SASL/PLAIN, judged by the broker; each user has one connection to it, and its rights."""

import struct
from contextlib import suppress

import anyio
import anyio.lowlevel
import pytest
from batches import batch
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kafka_client import RULES, TOKENS, Kafka, commit, committed, gateway, tls_of_both

from zaichik.apps.kafka import connection as connection_module
from zaichik.apps.kafka import frames
from zaichik.apps.kafka import gateway as gateway_module
from zaichik.apps.kafka import session as session_module
from zaichik.apps.kafka.codes import Code
from zaichik.apps.users.failures import OF_ONE
from zaichik.net.socket_stream import SocketStream
from zaichik.server.access.access_gate import in_memory

pytestmark = pytest.mark.anyio


async def log_in(kafka: Kafka, login: bytes, mechanism="PLAIN") -> int:
    """The error code of a login."""
    shaken = await kafka.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
    if shaken.error_code:
        assert shaken.mechanisms == ["PLAIN"]
        return shaken.error_code
    return (await kafka.ask(SaslAuthenticateRequest(auth_bytes=login), 1)).error_code


def token(user: str) -> bytes:
    return f"\0{user}\0{TOKENS[user]}".encode()


async def test_a_user_does_what_the_broker_lets_it_do():
    async with gateway(with_users=True) as running, running.connected() as kafka:
        versions = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        assert (await kafka.ask(versions, 3)).error_code == 0
        assert await log_in(kafka, token("ana")) == 0
        assert (await kafka.produce("mine/a", batch((None, b"1")))).error_code == 0
        refused = await kafka.produce("other", batch((None, b"1")))
        assert refused.error_code == Code.TOPIC_AUTHORIZATION_FAILED
        assert await kafka.metadata() == {"mine/a": 0}
        assert (await kafka.fetch("mine/a", 0)).records


async def test_without_a_login_nothing_is_answered_but_what_is_offered():
    async with gateway(with_users=True) as running, running.connected() as kafka:
        with pytest.raises(anyio.EndOfStream):
            await kafka.metadata()


@pytest.mark.parametrize(
    "login",
    [
        b"\0ana\0zk_" + b"x" * 43,
        b"\0ana\0password",
        b"\0nobody\0password",
        b"",
        b"ana",
        b"\0ana",
        b"\0\0",
        b"\0ana\0a\0b",
        b"\0\xff\0\xff",
        b"\0" + b"a" * 2000 + b"\0b",
    ],
)
async def test_what_is_no_login_is_refused(login):
    async with gateway(with_users=True) as running, running.connected() as kafka:
        assert await log_in(kafka, login) == Code.SASL_AUTHENTICATION_FAILED
        with pytest.raises(anyio.EndOfStream):
            await kafka.metadata()


async def test_other_mechanisms_are_refused_and_plain_is_named():
    async with gateway(with_users=True) as running, running.connected() as kafka:
        code = await log_in(kafka, token("ana"), mechanism="SCRAM-SHA-256")
        assert code == Code.UNSUPPORTED_SASL_MECHANISM
        assert await log_in(kafka, token("ana")) == 0


async def test_a_login_without_a_handshake_ends_the_connection():
    async with gateway(with_users=True) as running, running.connected() as kafka:
        await kafka.send(SaslAuthenticateRequest(auth_bytes=token("ana")), 1)
        assert await kafka.ended()


async def test_logins_in_the_old_way_are_refused():
    async with gateway(with_users=True) as running, running.connected() as kafka:
        response = await kafka.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0)
        assert response.error_code == Code.UNSUPPORTED_VERSION
        await kafka.stream.send(struct.pack(">i", len(token("ana"))) + token("ana"))
        assert await kafka.ended()


async def test_a_login_is_not_asked_for_where_there_are_none():
    async with gateway() as running, running.connected() as kafka:
        await kafka.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert await kafka.ended()


async def users(running) -> list[str]:
    """Whose connections the gateway has, besides its own."""
    connections = await running.client.connections()
    return sorted(it["user"] for it in connections if it["client"] == "zaichik kafka")


async def test_connections_of_a_user_share_one_to_the_broker():
    async with (
        gateway(with_users=True) as running,
        running.connected() as one,
        running.connected() as two,
        running.connected() as three,
    ):
        for kafka, user in ((one, "ana"), (two, "ana"), (three, "bob")):
            assert await log_in(kafka, token(user)) == 0
        assert await users(running) == ["ana", "bob"]


async def test_a_user_whose_login_has_ended_is_disconnected(caplog):
    """ACC-4. Otherwise its clients would be told of errors, and never ask who they are."""
    async with gateway(with_users=True) as running, running.connected() as kafka:
        assert await log_in(kafka, token("ana")) == 0
        without_ana = {user: secret for user, secret in TOKENS.items() if user != "ana"}
        gate = in_memory(without_ana, RULES, running.broker.clock)
        running.broker.gate.access = gate.access
        running.broker.sweep()
        with suppress(anyio.EndOfStream):
            while True:  # until the gateway knows
                await kafka.produce("mine/a", batch((None, b"1")))
        async with running.connected() as other:
            assert await log_in(other, token("bob")) == 0
    assert "a bug" not in caplog.text


async def test_a_user_logs_in_over_tls():
    shown, insisted, _ = tls_of_both()
    async with (
        gateway(with_users=True, tls=shown) as running,
        await SocketStream.connect("127.0.0.1", running.gateway.port) as stream,
    ):
        kafka = Kafka(await insisted.secure(stream, "localhost"))
        assert await log_in(kafka, token("ana")) == 0
        data = batch((None, bytes(500_000)))
        assert (await kafka.produce("mine/a", data)).error_code == 0
        assert len((await kafka.fetch("mine/a", 0)).records) > 500_000


@pytest.mark.parametrize(
    "noise", [b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff", b"GET / HTTP/1.1\r\n"]
)
async def test_what_is_not_tls_ends_the_connection(noise, caplog):
    caplog.set_level("INFO")
    shown, _, _ = tls_of_both()
    async with gateway(with_users=True, tls=shown) as running:
        async with running.connected() as kafka:
            await kafka.stream.send(noise)
            await kafka.ended()
        while "TLS failed" not in caplog.text:
            await anyio.lowlevel.checkpoint()


async def test_a_client_that_begins_no_tls_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(gateway_module, "TLS_SECONDS", 0)
    shown, _, _ = tls_of_both()
    async with gateway(with_users=True, tls=shown) as running, running.connected() as kafka:
        await kafka.ended()


async def test_groups_and_positions_belong_to_a_user():
    async with (
        gateway(with_users=True) as running,
        running.connected() as ana,
        running.connected() as bob,
    ):
        assert await log_in(ana, token("ana")) == 0
        assert await log_in(bob, token("bob")) == 0
        await ana.produce("mine/a", batch(*[(None, b"1")] * 9))
        assert await commit(ana, 5, topic="mine/a") == 0
        assert await committed(ana, topic="mine/a") == {"mine/a": (5, "")}
        assert await committed(bob, topic="mine/a") == {"mine/a": (-1, "")}


async def test_too_many_failures_of_an_address_are_not_passed_on():
    wrong = b"\0ana\0zk_" + b"x" * 43
    async with gateway(with_users=True) as running:
        for _ in range(OF_ONE):
            async with running.connected() as kafka:
                assert await log_in(kafka, wrong) == Code.SASL_AUTHENTICATION_FAILED
        async with running.connected() as kafka:
            await kafka.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            await kafka.send(SaslAuthenticateRequest(auth_bytes=wrong), 1)
            assert await kafka.ended()
        assert running.broker.gate.counters["login_failed"] == OF_ONE


# -- places --------------------------------------------------------------------------------------


async def logged(text: str, caplog) -> None:
    """Returns when the log has that."""
    while text not in caplog.text:
        await anyio.lowlevel.checkpoint()


async def test_a_user_cannot_take_all_connections(monkeypatch, caplog):
    monkeypatch.setattr(session_module, "MAX_CONNECTIONS", 3)
    caplog.set_level("INFO")
    async with (
        gateway(with_users=True) as running,
        running.connected() as one,
        running.connected() as two,
        running.connected() as other,
    ):
        for kafka in (one, two):
            assert await log_in(kafka, token("ana")) == 0
        async with running.connected() as three:
            with pytest.raises(anyio.EndOfStream):
                await log_in(three, token("ana"))
        await logged("user ana has 2 connections, and others may need the 1 that are left", caplog)
        assert await log_in(other, token("bob")) == 0


async def test_a_connection_that_has_ended_gives_its_place_back(monkeypatch):
    monkeypatch.setattr(session_module, "MAX_CONNECTIONS", 2)
    async with gateway(with_users=True) as running:
        for _ in range(3):
            async with running.connected() as kafka:
                assert await log_in(kafka, token("ana")) == 0
            while running.gateway.shared.connections.taken:
                await anyio.lowlevel.checkpoint()


async def test_one_without_a_login_makes_room_for_a_newer_one(monkeypatch, caplog):
    monkeypatch.setattr(gateway_module, "MAX_CONNECTIONS", 2)
    caplog.set_level("INFO")
    async with (
        gateway(with_users=True) as running,
        running.connected() as user,
        running.connected() as silent,
    ):
        assert await log_in(user, token("ana")) == 0
        async with running.connected() as newer:
            assert await log_in(newer, token("bob")) == 0
            assert await silent.ended()
            await logged("it had not logged in, and a newer connection needed its place", caplog)
            assert await user.metadata() == {}
            async with running.connected() as late:
                assert await late.ended()


async def test_a_silent_handshake_counts_and_makes_room(monkeypatch):
    """Of the address that has most, the oldest one goes; here all have the same."""
    monkeypatch.setattr(gateway_module, "MAX_CONNECTIONS", 1)
    shown, insisted, _ = tls_of_both()
    async with (
        gateway(with_users=True, tls=shown) as running,
        running.connected() as silent,
        await SocketStream.connect("127.0.0.1", running.gateway.port) as stream,
    ):
        kafka = Kafka(await insisted.secure(stream, "localhost"))
        assert await log_in(kafka, token("ana")) == 0
        assert await silent.ended()


async def test_before_a_login_requests_are_small(monkeypatch):
    monkeypatch.setattr(frames, "MAX_LOGIN", 1000)
    async with gateway(with_users=True) as running, running.connected() as kafka:
        await kafka.stream.send(struct.pack(">i", 1001))
        assert await kafka.ended()


async def test_a_user_must_log_in_in_time(monkeypatch):
    monkeypatch.setattr(connection_module, "LOGIN_SECONDS", 0)
    async with gateway(with_users=True) as running, running.connected() as kafka:
        assert await kafka.ended()
