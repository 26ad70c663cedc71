"""Packets of both versions, drawn by hypothesis: any that may be sent."""

from functools import partial

from hypothesis import strategies as st

from zaichik.apps.mqtt.packets import (
    NO_PROPERTIES,
    RETURN_CODES,
    WILL,
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    PacketType,
    PingReq,
    PingResp,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    SubAck,
    Subscribe,
    Subscription,
    UnsubAck,
    Unsubscribe,
    Version,
    Will,
)
from zaichik.apps.mqtt.packets.codes import ALLOWED
from zaichik.apps.mqtt.packets.properties import TABLE
from zaichik.apps.mqtt.packets.wire import (
    BINARY,
    BOOLEAN,
    LARGEST_VARINT,
    POSITIVE_U16,
    POSITIVE_U32,
    POSITIVE_VARINT,
    TEXT,
    TEXT_PAIR,
    TOPIC_ALIAS,
    TOPIC_NAME,
    U16,
    U32,
    ZERO_OR_ONE,
)

CHARACTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
TEXTS = st.text(CHARACTERS, max_size=20)
TOPICS = st.text(CHARACTERS, min_size=1, max_size=20)
BYTES = st.binary(max_size=20)
IDS = st.integers(1, 0xFFFF)
QOS = st.integers(0, 2)
U16S = st.integers(0, 0xFFFF)
U32S = st.integers(0, 0xFFFF_FFFF)

VALUES = {
    BINARY: BYTES,
    BOOLEAN: st.booleans(),
    POSITIVE_U16: IDS,
    POSITIVE_U32: st.integers(1, 0xFFFF_FFFF),
    POSITIVE_VARINT: st.integers(1, LARGEST_VARINT),
    TEXT: TEXTS,
    TEXT_PAIR: st.tuples(TEXTS, TEXTS),
    TOPIC_ALIAS: IDS,
    TOPIC_NAME: TOPICS.map(lambda text: text.replace("+", "-").replace("#", "-")),
    U16: U16S,
    U32: U32S,
    ZERO_OR_ONE: st.integers(0, 1),
}

# What a server alone, or a client alone, may send.
SERVERS_OWN = {
    PacketType.PUBLISH: "subscription_identifiers",
    PacketType.DISCONNECT: "server_reference",
}
CLIENTS_OWN = {PacketType.DISCONNECT: "session_expiry_interval"}


@st.composite
def properties(draw, owner, version, without=""):
    if version is Version.MQTT_3_1_1:
        return NO_PROPERTIES
    rows = [row for row in TABLE if owner in row.owners and row.name != without]
    values = {}
    for row in draw(st.lists(st.sampled_from(rows), unique=True, max_size=4)):
        value = VALUES[row.kind]
        if row.is_list:
            most = 3 if owner in row.repeats else 1
            value = st.lists(value, min_size=1, max_size=most).map(tuple)
        values[row.name] = draw(value)
    if "authentication_data" in values or owner is PacketType.AUTH:
        values.setdefault("authentication_method", "method")
    return Properties(**values) if values else NO_PROPERTIES


def codes(kind, version):
    allowed = sorted(ALLOWED[kind])
    if version is Version.MQTT_3_1_1:
        if kind is PacketType.CONNACK:
            allowed = sorted(RETURN_CODES.values())
        elif kind is PacketType.SUBACK:
            allowed = [code for code in allowed if code <= ReasonCode.UNSPECIFIED_ERROR]
        else:
            allowed = [ReasonCode.SUCCESS]
    return st.sampled_from(allowed)


@st.composite
def connects(draw, version):
    username = draw(st.none() | TEXTS)
    password = draw(st.none() | BYTES)
    client_id = draw(TEXTS)
    is_clean = draw(st.booleans())
    if version is Version.MQTT_3_1_1:
        if username is None:
            password = None
        if not client_id:
            is_clean = True
    wills = st.builds(Will, TEXTS, BYTES, QOS, st.booleans(), properties(WILL, version))
    return Connect(
        version,
        client_id,
        clean_start=is_clean,
        keep_alive=draw(U16S),
        will=draw(st.none() | wills),
        username=username,
        password=password,
        properties=draw(properties(PacketType.CONNECT, version)),
    )


@st.composite
def connacks(draw, version):
    code = draw(codes(PacketType.CONNACK, version))
    return ConnAck(
        session_present=draw(st.booleans()) and not code.is_failure,
        reason_code=code,
        properties=draw(properties(PacketType.CONNACK, version)),
    )


@st.composite
def publishes(draw, version, without=""):
    qos = draw(QOS)
    found = draw(properties(PacketType.PUBLISH, version, without))
    topics = TOPICS
    if found.topic_alias is not None:
        topics = TEXTS
    return Publish(
        draw(topics),
        draw(st.binary(max_size=200)),
        qos=qos,
        retain=draw(st.booleans()),
        dup=draw(st.booleans()) and qos > 0,
        packet_id=draw(IDS) if qos else 0,
        properties=found,
    )


def acknowledgements(kind, version):
    return st.builds(kind, IDS, codes(kind.TYPE, version), properties(kind.TYPE, version))


@st.composite
def subscriptions(draw, version):
    name = draw(TEXTS)
    if version is Version.MQTT_3_1_1:
        return Subscription(name, draw(QOS))
    return Subscription(
        name,
        draw(QOS),
        no_local=draw(st.booleans()) and not name.startswith("$share/"),
        retain_as_published=draw(st.booleans()),
        retain_handling=draw(QOS),
    )


def some(strategy):
    return st.lists(strategy, min_size=1, max_size=4).map(tuple)


def disconnects(version, without):
    kind = PacketType.DISCONNECT
    return st.builds(Disconnect, codes(kind, version), properties(kind, version, without))


def both_sides(version):
    found = [acknowledgements(kind, version) for kind in (PubAck, PubRec, PubRel, PubComp)]
    if version is Version.MQTT_5:
        kind = PacketType.AUTH
        found.append(st.builds(Auth, codes(kind, version), properties(kind, version)))
    return found


def from_client(version):
    """What a client sends, after CONNECT."""
    own = partial(properties, version=version)
    return st.one_of(
        publishes(version, SERVERS_OWN[PacketType.PUBLISH]),
        disconnects(version, SERVERS_OWN[PacketType.DISCONNECT]),
        st.builds(Subscribe, IDS, some(subscriptions(version)), own(PacketType.SUBSCRIBE)),
        st.builds(Unsubscribe, IDS, some(TEXTS), own(PacketType.UNSUBSCRIBE)),
        st.just(PingReq()),
        *both_sides(version),
    )


def from_server(version):
    """What a server sends."""
    own = partial(properties, version=version)
    unsuback_codes = st.just(())
    if version is Version.MQTT_5:
        unsuback_codes = some(codes(PacketType.UNSUBACK, version))
    return st.one_of(
        connacks(version),
        publishes(version),
        disconnects(version, CLIENTS_OWN[PacketType.DISCONNECT]),
        st.builds(SubAck, IDS, some(codes(PacketType.SUBACK, version)), own(PacketType.SUBACK)),
        st.builds(UnsubAck, IDS, unsuback_codes, own(PacketType.UNSUBACK)),
        st.just(PingResp()),
        *both_sides(version),
    )
