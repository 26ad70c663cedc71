"""Another's codec of version 5, `mqtt5`, reads what ours has written, and ours what it has.

Its packets have their properties as attributes, and for one that is not there the value that it
then has according to the standard.
"""

from dataclasses import fields, is_dataclass, replace

import pytest
from drawn_packets import connects, from_client, from_server
from hypothesis import given, settings
from hypothesis import strategies as st

from zaichik.apps.mqtt.packets import (
    Connect,
    Disconnect,
    Malformed,
    PacketDecoder,
    PacketType,
    Properties,
    ReasonCode,
    Version,
    encode,
)
from zaichik.apps.mqtt.packets.codes import ALLOWED

mqtt5 = pytest.importorskip("mqtt5", reason="only the extra `dev` has it")

pytestmark = pytest.mark.unmeasured

MOST = 1_000_000
V5 = Version.MQTT_5

# Table 2-6 of the standard has this code for DISCONNECT, and 3-10 has not; neither has mqtt5.
UNKNOWN_THERE = ReasonCode.BAD_AUTHENTICATION_METHOD

# What its attributes are called, where the names differ.
NAMES = {
    "dup": "duplicate",
    "filter": "pattern",
    "qos": "max_qos",
    "subscriptions": "topic_filters",
    "filters": "patterns",
    "subscription_identifiers": "subscription_ids",
    "assigned_client_identifier": "assigned_client_id",
    "request_problem_information": "request_problem_info",
    "request_response_information": "request_response_info",
    "response_information": "response_info",
    "reason_string": "reason_str",
    "receive_maximum": "receive_max",
    "topic_alias_maximum": "topic_alias_max",
    "maximum_qos": "max_qos",
    "maximum_packet_size": "max_packet_size",
    "wildcard_subscription_available": "wildcard_subscription_available",
    "subscription_identifier_available": "subscription_id_available",
}

# What it has where a property is not there; of all others, None.
DEFAULTS = {
    "payload_format_indicator": 0,
    "session_expiry_interval": 0,
    "request_problem_information": True,
    "request_response_information": False,
    "receive_maximum": 65_535,
    "topic_alias_maximum": 0,
    "maximum_qos": 2,
    "retain_available": True,
    "wildcard_subscription_available": True,
    "subscription_identifier_available": True,
    "shared_subscription_available": True,
    "will_delay_interval": 0,
}


def theirs(packet, name):
    """Their value of an attribute of ours."""
    if name == "subscription_identifiers" and hasattr(packet, "subscription_id"):
        identifier = packet.subscription_id
        return () if identifier is None else (identifier,)
    if not hasattr(packet, name):
        name = NAMES.get(name, name)
    return getattr(packet, name)


def same(value, other):
    """Whether their value is ours."""
    if is_dataclass(value):
        return all(same(found, theirs(other, name)) for name, found in told(value))
    if isinstance(value, tuple):
        pairs = zip(value, other, strict=True)
        return len(value) == len(other) and all(same(*pair) for pair in pairs)
    return value == other


def told(value):
    """What a packet of ours says, name by name."""
    for field in fields(value):
        found = getattr(value, field.name)
        if isinstance(found, Properties):
            # Those that are not there are compared below, after the way back.
            for name, one in told(found):
                if one not in (None, ()):
                    yield name, one
        elif field.name == "packet_id" and found == 0:
            yield field.name, None
        elif field.name != "version":
            yield field.name, found


def plain(value):
    """A packet of ours without properties that say nothing new."""
    if not is_dataclass(value):
        return value
    changes = {}
    for field in fields(value):
        found = getattr(value, field.name)
        if isinstance(value, Properties):
            if found == DEFAULTS.get(field.name):
                changes[field.name] = None
        elif is_dataclass(found):
            changes[field.name] = plain(found)
    return replace(value, **changes)


def read(packet, data):
    """Returns the packet that another has written, as the side reads it that gets such packets."""
    if isinstance(packet, Connect):
        return PacketDecoder(MOST).feed(data)
    try:
        server = PacketDecoder(MOST)
        server.feed(encode(Connect(V5), V5))
        return server.feed(data)
    except Malformed:
        return PacketDecoder(MOST, V5).feed(data)


@pytest.mark.parametrize(
    ("kind", "codes"),
    {
        PacketType.CONNACK: mqtt5.ConnAckReasonCode,
        PacketType.PUBACK: mqtt5.PubAckReasonCode,
        PacketType.PUBREC: mqtt5.PubRecReasonCode,
        PacketType.PUBREL: mqtt5.PubRelReasonCode,
        PacketType.PUBCOMP: mqtt5.PubCompReasonCode,
        PacketType.SUBACK: mqtt5.SubAckReasonCode,
        PacketType.UNSUBACK: mqtt5.UnsubAckReasonCode,
        PacketType.DISCONNECT: mqtt5.DisconnectReasonCode,
        PacketType.AUTH: mqtt5.AuthReasonCode,
    }.items(),
)
def test_each_packet_has_the_same_reason_codes(kind, codes):
    known = {int(code) for code in ALLOWED[kind]}
    if kind is PacketType.DISCONNECT:
        known.remove(UNKNOWN_THERE)
    found = [getattr(codes, name) for name in dir(codes) if name.isupper()]
    assert known == {int(code) for code in found}


@given(st.one_of(connects(V5), from_client(V5), from_server(V5)))
@settings(max_examples=200)
def test_it_reads_what_ours_has_written_and_ours_what_it_has(packet):
    if isinstance(packet, Disconnect) and packet.reason_code is UNKNOWN_THERE:
        packet = replace(packet, reason_code=ReasonCode.UNSPECIFIED_ERROR)
    data = encode(packet, V5)
    found, size = mqtt5.read(data)
    assert size == len(data)
    assert type(found).__name__.lower() == f"{type(packet).__name__}packet".lower()
    assert same(packet, found)
    (back,) = read(packet, found.write())
    assert plain(back) == plain(packet)
