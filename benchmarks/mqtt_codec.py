"""How many of MQTT's packets are read and written a second: by hand, and as they are declared.

    python -m benchmarks.mqtt_codec            # half a minute
    python -m benchmarks.mqtt_codec --quick    # does it work? The figures of this say nothing

Topics have 20 bytes, payloads 100. A decoder gets 64 KiB at a time. "fan-out" is one message to 200
clients, each with a packet identifier of its own. No socket, no broker; the best of the rounds.
"""

import argparse
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

from zaichik.apps.mqtt.packets import (
    Packet,
    PacketDecoder,
    Properties,
    PubAck,
    Publish,
    PublishTemplate,
    Version,
    encode,
    roles,
)
from zaichik.apps.mqtt.packets.table import encode_by_table

TOPIC = "home/kitchen/temp/01"
PAYLOAD = bytes(100)
PIECE = 64 * 1024
CLIENTS = 200
MAX_PACKET = 1024 * 1024

PACKETS: dict[str, Packet] = {
    "PUBLISH, QoS 0": Publish(TOPIC, PAYLOAD),
    "PUBLISH, QoS 1": Publish(TOPIC, PAYLOAD, qos=1, packet_id=7),
    "PUBLISH, QoS 1, 3 properties": Publish(
        TOPIC,
        PAYLOAD,
        qos=1,
        packet_id=7,
        properties=Properties(
            message_expiry_interval=60,
            content_type="text/plain",
            user_properties=(("sensor", "7"),),
        ),
    ),
    "PUBACK": PubAck(7),
}


@dataclass(frozen=True)
class Size:
    """How much is done: packets in a round, and rounds."""

    packets: int = 20_000
    rounds: int = 7


QUICK = Size(200, 1)


def per_second(size: Size, work: Callable[[], int]) -> float:
    """Returns how many packets a second are done, in the best round."""
    best = 0.0
    for _ in range(size.rounds):
        begin = time.perf_counter()
        done = work()
        best = max(best, done / (time.perf_counter() - begin))
    return best


def reading(version: Version, packet: Packet, size: Size, sender: roles.Role) -> float:
    """Returns packets a second, read by a decoder for what this sender sends."""
    data = encode(packet, version) * size.packets

    def work() -> int:
        decoder = PacketDecoder(MAX_PACKET, version)
        decoder._sender = sender  # noqa: SLF001 (the reader that is measured)
        done = 0
        for at in range(0, len(data), PIECE):
            done += len(decoder.feed(data[at : at + PIECE]))
        return done

    return per_second(size, work)


def writing(
    version: Version, packet: Packet, size: Size, write: Callable[[Packet, Version], bytes]
) -> float:
    """Returns packets a second, written by that function."""

    def work() -> int:
        for _ in range(size.packets):
            write(packet, version)
        return size.packets

    return per_second(size, work)


def fanning_out(version: Version, packet: Publish, size: Size) -> float:
    """Returns packets a second, each message written for many clients."""

    def work() -> int:
        messages = size.packets // CLIENTS
        for _ in range(messages):
            template = PublishTemplate(packet.topic, packet.payload, version, packet.properties)
            for number in range(1, CLIENTS + 1):
                template.encode(qos=packet.qos, packet_id=number)
        return messages * CLIENTS

    return per_second(size, work)


def as_declared() -> roles.Role:
    """Returns a server for which all is read from its declaration."""
    sender = copy(roles.SERVER)
    sender.readers = [reader and sender.decode for reader in sender.readers]
    return sender


def main() -> None:
    """Print a table of thousands of packets a second."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mqtt_codec")
    parser.add_argument("--quick", action="store_true", help="a second; figures say nothing")
    size = Size()
    if parser.parse_args().quick:
        size = QUICK

    print("thousands of packets a second, by hand (as declared)")
    for version in Version:
        print(f"{version.name}")
        for name, packet in PACKETS.items():
            if "properties" in name and version is Version.MQTT_3_1_1:
                continue
            figures = [
                reading(version, packet, size, roles.SERVER),
                reading(version, packet, size, as_declared()),
                writing(version, packet, size, encode),
                writing(version, packet, size, encode_by_table),
            ]
            read, read_declared, write, write_declared = [figure / 1000 for figure in figures]
            line = f"  {name:<30} read {read:6,.0f} ({read_declared:4,.0f})"
            line += f"   write {write:6,.0f} ({write_declared:5,.0f})"
            if isinstance(packet, Publish):
                line += f"   fan-out {fanning_out(version, packet, size) / 1000:6,.0f}"
            print(line)


if __name__ == "__main__":
    main()
