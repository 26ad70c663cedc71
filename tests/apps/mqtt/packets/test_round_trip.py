"""Any packet is what its bytes say, in both versions; and by hand it is the same as declared."""

from contextlib import suppress

from drawn_packets import connects, from_client, from_server, publishes
from hypothesis import given, settings
from hypothesis import strategies as st

from zaichik.apps.mqtt.packets import (
    Connect,
    Malformed,
    PacketDecoder,
    Publish,
    PublishTemplate,
    Unencodable,
    Version,
    encode,
)
from zaichik.apps.mqtt.packets.hot import ACKNOWLEDGEMENTS, FLAGS
from zaichik.apps.mqtt.packets.roles import CLIENT, SERVER
from zaichik.apps.mqtt.packets.table import encode_by_table

MOST = 1_000_000
VERSIONS = st.sampled_from(Version)
OF_CLIENTS = VERSIONS.flatmap(
    lambda version: st.tuples(st.just(version), connects(version), from_client(version))
)
OF_SERVERS = VERSIONS.flatmap(lambda version: st.tuples(st.just(version), from_server(version)))
MESSAGES = VERSIONS.flatmap(lambda version: st.tuples(st.just(version), publishes(version)))


@given(OF_CLIENTS)
def test_a_server_reads_what_a_client_has_written(drawn):
    version, connect, packet = drawn
    decoder = PacketDecoder(MOST)
    assert decoder.feed(encode(connect, version)) == [connect]
    assert decoder.version is version
    assert decoder.feed(encode(packet, version)) == [packet]
    assert decoder.buffered == 0


@given(OF_SERVERS)
def test_a_client_reads_what_a_server_has_written(drawn):
    version, packet = drawn
    assert PacketDecoder(MOST, version).feed(encode(packet, version)) == [packet]


@given(OF_CLIENTS)
@settings(max_examples=60)
def test_a_packet_that_is_cut_anywhere_is_waited_for(drawn):
    version, connect, packet = drawn
    data = encode(packet, version)
    for cut in range(len(data)):
        decoder = PacketDecoder(MOST)
        decoder.feed(encode(connect, version))
        assert decoder.feed(data[:cut]) == []
        assert decoder.buffered == cut
        assert decoder.feed(data[cut:] + data) == [packet, packet]
        assert decoder.buffered == 0


@given(OF_CLIENTS)
@settings(max_examples=60)
def test_packets_may_come_byte_by_byte(drawn):
    version, connect, packet = drawn
    decoder = PacketDecoder(MOST)
    found = []
    for byte in encode(connect, version) + encode(packet, version) * 2:
        found += decoder.feed(bytes([byte]))
    assert found == [connect, packet, packet]


@given(st.one_of(OF_SERVERS, MESSAGES))
def test_by_hand_the_same_is_written_as_declared(drawn):
    version, packet = drawn
    assert encode(packet, version) == encode_by_table(packet, version)


def outcome(read, *arguments):
    try:
        return read(*arguments)
    except Malformed as error:
        return error.reason_code, error.text


def body_of(drawn):
    """A packet without its fixed header."""
    version, packet = drawn
    data = encode_by_table(packet, version)
    begin = 2
    while data[begin - 1] > 0x7F:
        begin += 1
    return data[begin:]


# Of another packet, cut off or not; or bytes so small that they may be lengths.
BODIES = st.one_of(
    MESSAGES.map(body_of),
    st.tuples(MESSAGES.map(body_of), st.integers(0, 30)).map(lambda cut: cut[0][: cut[1]]),
    st.lists(st.integers(0, 4), max_size=12).map(bytes),
)


@given(
    VERSIONS,
    st.sampled_from([*FLAGS, *ACKNOWLEDGEMENTS]),
    BODIES,
    st.binary(max_size=10),
    st.sampled_from([CLIENT, SERVER]),
)
@settings(max_examples=300)
def test_by_hand_the_same_is_read_as_declared_whatever_the_bytes(
    version, first, body, following, sender
):
    """Also of those that follow the packet nothing is read."""
    data = b"--" + body + following
    limits = (2, 2 + len(body))
    quick = sender.readers[first](version, first, data, *limits)
    declared = outcome(sender.decode, version, first, data, *limits)
    assert quick is None or quick == declared


@given(MESSAGES)
def test_a_template_writes_what_the_message_would_be(drawn):
    version, message = drawn
    template = PublishTemplate(message.topic, message.payload, version, message.properties)
    assert template.encode(
        qos=message.qos, packet_id=message.packet_id, retain=message.retain, dup=message.dup
    ) == encode(message, version)
    assert template.size(message.qos) == len(encode(message, version))


@given(OF_CLIENTS, st.data())
def test_damaged_packets_give_nothing_but_malformed(drawn, data):
    version, connect, packet = drawn
    stream = bytearray(encode(connect, version) + encode(packet, version))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(stream) - 1))
        stream[at] = data.draw(st.integers(0, 255))
    decoder = PacketDecoder(MOST)
    try:
        packets = decoder.feed(bytes(stream))
    except Malformed as error:
        assert decoder.buffered == 0
        packets = error.before
    for found in packets:  # what is read is a packet like any other
        version = decoder.version
        if isinstance(found, Connect):
            version = found.version
        encode(found, version)


@given(st.binary(max_size=60), st.sampled_from([None, *Version]))
def test_any_bytes_give_packets_or_malformed(data, version):
    decoder = PacketDecoder(MOST, version)
    with suppress(Malformed):
        decoder.feed(data)
    assert decoder.buffered <= len(data)


@given(st.text(max_size=5), st.integers(-1, 70_000), st.integers(-1, 4), st.sampled_from(Version))
def test_a_packet_that_cannot_be_written_says_so(topic, packet_id, qos, version):
    packet = Publish(topic, packet_id=packet_id, qos=qos)
    try:
        data = encode(packet, version)
    except Unencodable:
        return
    (found,) = PacketDecoder(MOST, version).feed(data)
    assert (found.topic, found.qos) == (topic, qos)
