"""What a capture of a network would hold, made from bytes: connections in the format that tcpdump
writes (pcap).

Nothing is captured, so no rights are needed, and no time passes: a packet comes each millisecond.
"""

import struct
from itertools import pairwise

CLIENT, BROKER = bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2))
FIN, SYN, PUSH, ACK = 1, 2, 8, 16


class Capture:
    """All packets so far."""

    def __init__(self):
        self._packets = []

    def connection(self, port=8889, *, from_start=True, snap=65535):
        """A new connection to a broker at that port.

        Args:
            port: the broker's.
            from_start: whether the packets that open it were captured, too.
            snap: bytes of each packet that were kept.
        """
        opened = Connection(self, 40000 + len(self._packets), port, snap)
        if from_start:
            opened.open()
        return opened

    def add(self, ip, snap):
        """Returns the packet's number, which begins at 1."""
        self._packets.append((b"\2" * 6 + b"\4" * 6 + b"\x08\x00" + ip, snap))
        return len(self._packets)

    def write(self, path):
        """The file: a header, and a header before each packet."""
        parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
        for number, (packet, snap) in enumerate(self._packets):
            kept = packet[:snap]
            parts += [
                struct.pack("<IIII", number // 1000, number % 1000 * 1000, len(kept), len(packet)),
                kept,
            ]
        path.write_bytes(b"".join(parts))
        return path


class Connection:
    """A TCP connection. Each end's packets are numbered by the bytes it has sent."""

    def __init__(self, capture, client_port, broker_port, snap):
        self._capture, self._snap = capture, snap
        self._ports = {"client": client_port, "broker": broker_port}
        self._sent = {"client": 1000, "broker": 5000}

    def open(self):
        """Three packets, without data."""
        self._packet("client", SYN)
        self._packet("broker", SYN | ACK)
        self._packet("client", ACK)

    def send(self, end, data, *cuts):
        """The data in as many packets as there are cuts, and one.

        Returns the number of the last one.
        """
        for start, stop in pairwise((0, *cuts, len(data))):
            number = self._packet(end, PUSH | ACK, data[start:stop])
        return number

    def _packet(self, end, flags, data=b""):
        other = "broker" if end == "client" else "client"
        acknowledged = self._sent[other] if flags & ACK else 0
        tcp = struct.pack(
            ">HHIIBBHHH",
            self._ports[end],
            self._ports[other],
            self._sent[end],
            acknowledged,
            5 << 4,
            flags,
            65535,
            0,
            0,
        )
        addresses = CLIENT + BROKER if end == "client" else BROKER + CLIENT
        size = 20 + len(tcp) + len(data)
        self._sent[end] += len(data) + bool(flags & (SYN | FIN))
        return self._capture.add(
            struct.pack(">BBHHHBBH", 0x45, 0, size, 0, 0, 64, 6, 0) + addresses + tcp + data,
            self._snap,
        )
