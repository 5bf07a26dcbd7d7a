"""The parameters of a connection, made from the configured address."""

import pytest

from actors.store.dsn import connection_parameters
from actors.store.errors import StoreUnavailable
from tests.support.aio import run
from tests.support.rows import cases


def test_host_name_comes_with_its_addresses() -> None:
    parameters = run(connection_parameters("postgresql://me@localhost:5433/db"))
    addresses = parameters["hostaddr"].split(",")
    assert "127.0.0.1" in addresses
    assert parameters["host"] == ",".join(["localhost"] * len(addresses))
    assert (parameters["user"], parameters["port"], parameters["dbname"]) == ("me", "5433", "db")


@cases(
    "dsn",
    "postgresql://me@/db?host=%2Ftmp%2Fpg",
    "host=/tmp/pg user=me",
    "host=a,b user=me",
    "host=a hostaddr=192.0.2.1",
    "dbname=db",
)
def test_socket_several_hosts_and_given_addresses_are_left_alone(dsn: str) -> None:
    parameters = run(connection_parameters(dsn))
    assert parameters.get("hostaddr") in (None, "192.0.2.1")


def test_given_parameters_win_over_the_defaults() -> None:
    parameters = run(connection_parameters("host=/tmp/pg keepalives_idle=99"))
    assert parameters["keepalives_idle"] == "99"
    assert parameters["keepalives_count"] == "3"


def test_broken_address_is_refused_without_being_quoted() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        run(connection_parameters("postgresql://me:secret@host:port:port/db?=x"))
    assert "secret" not in str(caught.value)


def test_unknown_host_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable, match="no address"):
        run(connection_parameters("postgresql://me@no-such-host.invalid/db"))
