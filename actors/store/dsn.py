"""Builds the parameters of a connection from `database_url`.

Resolves the host name on the loop, because libpq would resolve it in a blocking call and stop
every stream of the process. Does not connect.
"""

from __future__ import annotations

import asyncio
import socket

from psycopg2 import ProgrammingError
from psycopg2.extensions import parse_dsn

from actors.store.errors import StoreUnavailable

DEFAULTS = {
    "fallback_application_name": "gw",
    # A host that fails silently is detected within half a minute, also by a connection that only
    # listens.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",  # milliseconds
}


async def connection_parameters(dsn: str) -> dict[str, str]:
    """Parse `dsn` (a URL or libpq's `key=value` form), add defaults and the host's addresses.

    Raises StoreUnavailable when it cannot be parsed or its host has no address.
    """
    try:
        given: dict[str, str] = parse_dsn(dsn)
    except ProgrammingError as error:
        # The text of the error could quote the password.
        raise StoreUnavailable("the database address cannot be parsed") from error
    parameters = DEFAULTS | given
    host = given.get("host", "")
    is_name = host and not host.startswith(("/", "@")) and "," not in host
    if is_name and "hostaddr" not in given:
        addresses = await _addresses(host)
        parameters["hostaddr"] = ",".join(addresses)
        # libpq wants one name per address; TLS still verifies the name.
        parameters["host"] = ",".join([host] * len(addresses))
    return parameters


async def _addresses(host: str) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise StoreUnavailable(f"the database host {host!r} has no address") from error
    return list(dict.fromkeys(str(address[4][0]) for address in found))
