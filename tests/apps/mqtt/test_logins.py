"""Users of a broker with access control, over MQTT (G-8)."""

import ssl
from contextlib import suppress

import anyio
import pytest
from mqtt_clients import KEPT, TOKEN, V4, V5, MqttClient, mqtt_gateway

import zaichik
from zaichik.apps.mqtt.gateway import Gateway
from zaichik.apps.mqtt.packets import ConnAck, Connect, Disconnect, ReasonCode, Will
from zaichik.apps.users.failures import OF_ONE
from zaichik.net.background import BackgroundTasks
from zaichik.net.socket_stream import SocketStream
from zaichik.net.tls_handshake import handshake
from zaichik.server.access.access_gate import in_memory

pytestmark = pytest.mark.anyio

ANA, BOB = f"zk_{'b' * 43}", f"zk_{'c' * 43}"
OPERATOR = f"zk_{'d' * 43}"
USERS = {"ana": ANA, "bob": BOB, "operator": OPERATOR}
RULES = """\
user gateway
allow all mqtt*
allow all orders
user operator
allow describe $broker
user ana
allow publish,subscribe mqtt
user bob
allow subscribe mqtt
allow publish,subscribe orders
"""
AS_ANA = {"username": "x", "password": ANA.encode()}
AS_BOB = {"username": "x", "password": BOB.encode()}


def guarded(**options):
    return mqtt_gateway(RULES, users=USERS, **options)


async def test_a_client_logs_in_with_a_token_in_either_place():
    async with guarded() as running:
        for login in (AS_ANA, {"username": ANA}):
            async with running.connected("a", **login) as client:
                await client.ping()
                await client.disconnect()


@pytest.mark.parametrize(
    ("login", "code"),
    [
        ({}, ReasonCode.NOT_AUTHORIZED),
        ({"username": "ana"}, ReasonCode.NOT_AUTHORIZED),
        ({"username": "ana", "password": b"\xff"}, ReasonCode.NOT_AUTHORIZED),
        ({"username": "ana", "password": b"wrong password"}, ReasonCode.BAD_USER_NAME_OR_PASSWORD),
        ({"username": f"zk_{'e' * 43}"}, ReasonCode.BAD_USER_NAME_OR_PASSWORD),
    ],
)
@pytest.mark.parametrize("version", [V4, V5], ids=["3.1.1", "5"])
async def test_a_client_that_is_nobody_is_refused(login, code, version):
    async with guarded() as running, running.connecting("a", version, **login) as found:
        client, answer = found
        assert answer.reason_code == code
        assert await client.ended()


async def test_users_may_do_what_the_brokers_rules_allow():
    async with (
        guarded(trees=("orders",)) as running,
        running.connected("a", **AS_ANA) as ana,
        running.connected("b", **AS_BOB) as bob,
    ):
        refused = ReasonCode.NOT_AUTHORIZED
        answer = await ana.subscribe("home/#", "orders/#", "#")
        assert answer.reason_codes == (2, refused, 2)
        assert (await bob.subscribe("home/#", "orders/#")).reason_codes == (2, 2)
        assert (await bob.publish("home/x", b"1")).reason_code == refused
        assert (await bob.publish("home/x", b"1", retain=True)).reason_code == refused
        assert (await ana.publish("orders/x", b"1")).reason_code == refused
        await bob.publish("orders/x", b"2")
        assert await bob.payloads(1) == [b"2"]
        await ana.publish("home/x", b"3")
        assert await bob.payloads(1) == [b"3"]
        # What a wildcard matches in a tree that she may not read does not come.
        assert await ana.payloads(1) == [b"3"]
        assert await ana.nothing()
        assert len(running.state.retained) == 0


async def test_retained_messages_need_the_right_to_their_tree():
    async with (
        guarded(trees=("orders",)) as running,
        running.connected("a", **AS_ANA) as ana,
        running.connected("b", **AS_BOB) as bob,
    ):
        await bob.publish("orders/x", b"1", retain=True)
        await ana.publish("home/x", b"2", retain=True)
        await ana.subscribe("#")
        assert await ana.payloads(1) == [b"2"]
        assert await ana.nothing()


async def test_a_will_needs_the_right_to_its_topic():
    async with (
        guarded() as running,
        running.connecting("b", will=Will("x", b""), **AS_BOB) as (client, answer),
    ):
        assert answer.reason_code == ReasonCode.NOT_AUTHORIZED
        assert await client.ended()


async def test_a_name_of_a_client_belongs_to_its_user():
    async with guarded() as running:
        async with running.connected("a", **AS_ANA, **KEPT) as client:
            await client.subscribe("t", "$share/g/t")
            await client.disconnect()
        async with running.connecting("a", clean_start=False, **AS_BOB, **KEPT) as found:
            assert not found[1].session_present
        async with (
            running.another() as second,
            second.connecting("a", clean_start=False, **AS_ANA, **KEPT) as found,
        ):
            assert found[1].session_present


async def connections(running):
    """Those of the broker, as an operator sees them."""
    login = f"zaichik://{OPERATOR}@127.0.0.1:{running.broker.port}"
    async with zaichik.connect(login) as operator:
        return [one for one in await operator.connections() if one["user"] != "operator"]


async def test_clients_of_a_user_share_one_connection():
    async with (
        guarded() as running,
        running.connected("a", **AS_ANA),
        running.connected("b", **AS_ANA),
    ):
        users = [one["user"] for one in await connections(running)]
        assert sorted(users) == ["ana", "gateway"]


@pytest.mark.parametrize(
    ("version", "code"),
    [(V4, ReasonCode.SERVER_UNAVAILABLE), (V5, ReasonCode.CONNECTION_RATE_EXCEEDED)],
    ids=["3.1.1", "5"],
)
async def test_an_address_that_has_failed_too_often_is_not_passed_on(version, code):
    wrong = {"username": f"zk_{'e' * 43}"}
    async with guarded() as running:
        for _ in range(OF_ONE):
            async with running.connecting("a", version, **wrong) as (_, answer):
                assert answer.reason_code == ReasonCode.BAD_USER_NAME_OR_PASSWORD
        async with running.connecting("a", version, **AS_ANA) as (_, answer):
            assert answer.reason_code == code
        assert running.broker.gate.counters["login_failed"] == OF_ONE


async def test_a_login_that_ends_ends_the_clients_that_it_has():
    """ACC-4. A client that only reads is no exception, and other users notice nothing."""
    async with (
        guarded() as running,
        running.connected("a", **AS_ANA) as ana,
        running.connected("b", **AS_BOB) as bob,
    ):
        await bob.subscribe("t")
        without_bob = {"ana": ANA, "gateway": TOKEN}
        running.broker.gate.access = in_memory(without_bob, RULES, running.clock).access
        running.broker.sweep()
        assert (await bob.expect(Disconnect)).reason_code == ReasonCode.NOT_AUTHORIZED
        assert await bob.ended()
        await ana.publish("t", b"1")


async def test_no_local_and_flags_are_known_over_the_connection_of_a_user():
    async with guarded() as running, running.connected("a", **AS_ANA) as ana:
        await ana.subscribe("t", no_local=True)
        for number in range(30):
            await ana.publish("t", b"%d" % number, number % 3)
        assert await ana.nothing()


async def test_it_speaks_tls(tls_files):
    certificate, key, context = tls_files
    async with zaichik.running_broker() as broker, zaichik.connect(port=broker.port) as client:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(certificate, key)
        gateway = await Gateway.listening(
            client,
            zaichik.endpoint(f"127.0.0.1:{broker.port}"),
            "127.0.0.1",
            0,
            zaichik.SystemClock(),
            tls=server,
        )
        ready = anyio.Event()
        async with gateway, BackgroundTasks() as tasks:
            tasks.group.start_soon(gateway.run, ready.set)
            await ready.wait()
            async with await SocketStream.connect("127.0.0.1", gateway.port) as plain:
                await plain.send(b"\x10\x00")
                await plain.send_eof()
                # An alert, perhaps.
                with suppress(anyio.EndOfStream):
                    while True:
                        await plain.receive()
            async with await SocketStream.connect("127.0.0.1", gateway.port) as raw:
                stream = await handshake(raw, context, "localhost")
                mqtt = MqttClient(stream, V5)
                await mqtt.send(Connect(V5, "a"))
                await mqtt.expect(ConnAck)
                await mqtt.subscribe("t")
                await client.publish("mqtt", bytes(200_000), "t")
                assert len((await mqtt.message()).payload) == 200_000


@pytest.fixture
def tls_files(tmp_path):
    trustme = pytest.importorskip("trustme")
    ca = trustme.CA()
    own = ca.issue_cert("localhost")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_bytes(b"".join(blob.bytes() for blob in own.cert_chain_pems))
    key.write_bytes(own.private_key_pem.bytes())
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return certificate, key, context
