"""The way to a fleet's server: neither the password nor the memory is given to somebody who is not that server."""

from __future__ import annotations

import configparser
import os
from pathlib import Path

from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import is_loopback
from reactree_ros.memory.port import EpisodicMemoryError
from reactree_ros.plugins.installation import install_requirements

_VARIABLES = {
    name: f"PG{name.replace('_', '').upper()}" for name in ("host", "hostaddr", "service", "sslmode", "require_auth")
}
#: The first version of libpq that can demand a way to authenticate.
_LEAST = 160000
#: What libpq says when the server does not do what is demanded, and the way out.
_REMEDIES = {
    "authentication method requirement": "if the server is right to ask so, name that in the address, such as "
    "require_auth=password (a pooler's plain text), md5 or none",
    "does not support SSL": "turn TLS on there; sslmode=disable in the address does without, and then everybody on the "
    "way reads the memory",
    "certificate": "name the file with the certificate of who signs for the server: sslrootcert=FILE in the address; "
    "sslrootcert=system takes those of this machine",
}


def demands(url: str) -> tuple[dict[str, str], str]:
    """Return the options that are demanded of a server, and in words what the user has loosened.

    SCRAM, which does not give the password away; over another machine's network, TLS with the certificate checked. On
    a Unix-domain socket the system vouches for the user. What the user has set, by the address, a service file or the
    environment, wins.

    Raises:
        UserError: The client's library is too old to demand it.
    """
    import psycopg

    if psycopg.pq.version() < _LEAST:
        raise UserError(
            f"libpq {psycopg.pq.version() // 10000} is too old for a fleet's memory: "
            f"{install_requirements('psycopg[binary]')}"
        )
    said = {name: os.environ[variable] for name, variable in _VARIABLES.items() if os.environ.get(variable)}
    address = {name: str(value) for name, value in psycopg.conninfo.conninfo_to_dict(url).items()}
    said |= _of_service(address.get("service") or said.get("service", "")) | address
    hosts = (said.get("hostaddr") or said.get("host", "")).split(",")
    sockets = {one for one in hosts if not one or one[0] in "/@"}
    demanded = {"require_auth": "scram-sha-256,none" if sockets.issuperset(hosts) else "scram-sha-256"}
    if not all(one in sockets or is_loopback(one) for one in hosts):
        demanded["sslmode"] = "verify-full"
    loosened = [
        f"{name}={said[name]} is set, not {value}" for name, value in demanded.items() if said.get(name, value) != value
    ]
    return {name: value for name, value in demanded.items() if name not in said}, ", and ".join(loosened)


def checked(url: str, said: str) -> None:
    """Check what was said when a connection failed.

    Raises:
        EpisodicMemoryError: The server is not as demanded; the message says what to set.
    """
    for mark, remedy in _REMEDIES.items():
        if mark in said:
            raise EpisodicMemoryError(f"{url}: the server is not trusted: {said}; {remedy}")


def _of_service(name: str) -> dict[str, str]:
    """Return what the user's service file says of a service; nothing if it is not there."""
    file = os.environ.get("PGSERVICEFILE") or Path("~/.pg_service.conf").expanduser()
    services = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#",), strict=False)
    try:
        services.read(file, encoding="utf-8")
        return dict(services[name])
    except (KeyError, ValueError, configparser.Error):
        return {}
