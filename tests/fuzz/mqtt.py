"""MQTT's decoder under any bytes: one stream, cut in three ways, beside a reader that is too plain
to be wrong.

An input is a receiver and the bytes it gets: `server`, a server from CONNECT on; `old` and `new`,
one that has read the CONNECT of a client of 3.1.1, or of 5; `client`, a client of version 5.
"""

import random
import sys
from pathlib import Path

from zaichik.apps.mqtt.packets import Connect, Malformed, PacketDecoder, Version, encode
from zaichik.apps.mqtt.packets.roles import CLIENT, NEW_CLIENT, SERVER
from zaichik.apps.mqtt.packets.table import encode_by_table

from . import mutation

# Where pytest finds them by itself.
sys.path.append(str(Path(__file__).parents[1] / "apps" / "mqtt" / "packets"))

from packet_damages import BAD_CONNECTS, BAD_OF_CLIENTS, BAD_OF_SERVERS
from packet_vectors import CLIENTS, CONNECTS, SERVERS, WORDIER

MAX_PACKET = 300
OLD, NEW = Version.MQTT_3_1_1, Version.MQTT_5
RECEIVERS = {
    "server": (NEW_CLIENT, None),
    "old": (CLIENT, OLD),
    "new": (CLIENT, NEW),
    "client": (SERVER, NEW),
}


def _bytes_of(vectors, place, version=None):
    """The bytes of vectors, all or those of one version."""
    return [
        bytes.fromhex(vector[place])
        for vector in vectors
        if version is None or vector[place - 1] is version
    ]


# Good ones are more frequent: what comes after a bad one is not looked at.
FIRST = _bytes_of(CONNECTS * 4, 1) + _bytes_of(BAD_CONNECTS, 1)
OF_CLIENTS = [*CLIENTS, *WORDIER] * 4
PACKETS = {
    "server": FIRST,
    "old": _bytes_of(OF_CLIENTS, 1, OLD) + _bytes_of(BAD_OF_CLIENTS, 2, OLD),
    "new": _bytes_of(OF_CLIENTS, 1, NEW) + _bytes_of(BAD_OF_CLIENTS, 2, NEW),
    "client": _bytes_of(SERVERS * 4, 1, NEW) + _bytes_of(BAD_OF_SERVERS, 2, NEW),
}


def _decoder(receiver):
    """A decoder of that receiver, which has read CONNECT if it must have."""
    sender, version = RECEIVERS[receiver]
    if sender is SERVER:
        return PacketDecoder(MAX_PACKET, version)
    decoder = PacketDecoder(MAX_PACKET)
    if sender is CLIENT:
        decoder.feed(encode(Connect(version), version))
    return decoder


def _told(error):
    return error.reason_code, error.text, error.packet_type


def expected(receiver, data):
    """What must be found: each packet, or the error, and the first byte with which it is known."""
    sender, version = RECEIVERS[receiver]
    at = 0
    while at < len(data):
        if sender.readers[data[at]] is None:
            yield _told(sender.refusal(data[at])), at + 1
            return
        size, length_end = _length(data[at + 1 : at + 5])
        if size is None:
            # Four bytes are here and none is the last, or there are not yet so many.
            if len(data) - at >= 5:
                yield None, at + 5
            return
        begin = at + 1 + length_end
        end = begin + size
        is_padded = length_end > 1 and data[begin - 1] == 0
        if end - at > MAX_PACKET or (is_padded and sender is not NEW_CLIENT and version is NEW):
            yield None, begin
            return
        if end > len(data):
            return
        try:
            packet = sender.decode(version or NEW, data[at], data, begin, end)
        except Malformed as error:
            yield _told(error), end
            return
        yield packet, end
        if isinstance(packet, Connect):
            sender, version = CLIENT, packet.version
        at = end


def _length(data):
    """A length, and how many bytes it has; None if these are not all."""
    size = 0
    for index, byte in enumerate(data):
        size += (byte % 128) * 128**index
        if byte < 128:
            return size, index + 1
    return None, 0


def read(receiver, pieces):
    """What is found: each packet, or the error, and how much had come by then."""
    decoder, fed = _decoder(receiver), 0
    for piece in pieces:
        fed += len(piece)
        try:
            packets = decoder.feed(piece)
        except Malformed as error:
            for packet in error.before:
                yield packet, fed
            yield _told(error), fed
            assert decoder.buffered == 0, "nothing is kept"
            _is_the_last_word(decoder, error)
            return
        for packet in packets:
            yield packet, fed
        assert decoder.buffered < max(decoder._needed, 1) <= MAX_PACKET, "memory is bounded"


def _is_the_last_word(decoder, error):
    found = None
    try:
        decoder.feed(b"\xc0\0")
    except Malformed as again:
        found = again
    assert found is error
    assert error.before == []


def _same(found, wanted):
    """The plain reader has no words for what is wrong with a length."""
    if wanted is None:
        return isinstance(found, tuple) and found[2] is None
    return found == wanted


def check(receiver, data):
    """Raises what is wrong."""
    wanted = list(expected(receiver, data))
    cuts = random.Random(data)
    pieces, at = [], 0
    while at < len(data):
        size = cuts.choice((1, 2, 3, 5, 12, 40, 1000))
        pieces.append(data[at : at + size])
        at += size
    bytewise = list(read(receiver, map(bytes, zip(data))))
    for found in (list(read(receiver, [data])), list(read(receiver, pieces)), bytewise):
        assert len(found) == len(wanted), "pieces do not matter"
        for (outcome, _), (right, _) in zip(found, wanted, strict=True):
            assert _same(outcome, right), "what is read by hand agrees with the declaration"
    for (_, known), (_, first) in zip(bytewise, wanted, strict=True):
        assert known == first, "nothing is waited for in vain"
    _, version = RECEIVERS[receiver]
    for packet, _ in wanted:
        if isinstance(packet, Connect):
            version = packet.version
        if packet is not None and not isinstance(packet, tuple):
            _is_written_as_it_is_read(packet, version, receiver)


def _is_written_as_it_is_read(packet, version, receiver):
    data = encode(packet, version)
    assert data == encode_by_table(packet, version)
    decoder = PacketDecoder(MAX_PACKET + 10)
    if receiver == "client":
        decoder = PacketDecoder(MAX_PACKET + 10, version)
    elif not isinstance(packet, Connect):
        decoder.feed(encode(Connect(version), version))
    assert decoder.feed(data) == [packet]


def play(rng, log):
    """One input, made and tried; it is noted in the log before."""
    receiver = rng.choice([*RECEIVERS])
    data = mutation.glued(rng, PACKETS[receiver], _mutated)
    if receiver == "server" and rng.random() < 0.7:
        following = rng.choice(["old", "new"])
        data = rng.choice(FIRST) + mutation.glued(rng, PACKETS[following], _mutated)
    log.append(f"{receiver}:{data.hex()}")
    replay(log)


def _mutated(rng, data):
    """These bytes with a few changes; in half of the cases with a length that is right again."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if changed:
            rng.choice(mutation.ANYWHERE)(rng, changed)
    if rng.random() < 0.5 and 2 <= len(changed) < 130:
        changed[1] = len(changed) - 2
    return bytes(changed)


def replay(log):
    """The inputs of a log, again."""
    for entry in log:
        receiver, _, data = entry.partition(":")
        check(receiver, bytes.fromhex(data))
