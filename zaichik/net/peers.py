"""Addresses of peers, as strings of host and port, and the clients that they stand for."""

from ipaddress import IPv6Address, ip_address


def client_of(peer: str) -> str:
    """Returns the client of an address: the address without the port.

    In IPv6, its first 64 bits, the network.
    """
    host = peer.rpartition(":")[0]
    if ":" not in host:
        return host
    address = IPv6Address(host.partition("%")[0])  # without the interface
    return address.exploded[:19]


def is_loopback(peer: str) -> bool:
    """Returns whether an address is of this machine."""
    try:
        return ip_address(peer.rpartition(":")[0]).is_loopback
    except ValueError:
        # The system did not report the address.
        return False
