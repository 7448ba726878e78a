"""Which addresses are those of this machine: what is said to others has to be kept from whoever is on the way."""

from __future__ import annotations

import ipaddress

_NAMES = ("localhost", "localdomain")


def is_loopback(host: str) -> bool:
    """Return whether a name or an address reaches this machine alone."""
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host.rstrip(".").rpartition(".")[2].lower() in _NAMES
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
