"""The public listener over TLS: the same requests, answers and endings."""

import resource
import ssl
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from gw.config.addresses import ListenAddress
from gw.config.certificate import renew, server_context
from gw.config.config import Certificate, Config
from gw.config.faults import ConfigFaults
from gw.http import server
from gw.http.server import Server
from tests.support.aio import both_loops, eventually
from tests.support.certificates import contexts, pem_files, trusting
from tests.support.logs import logs
from tests.unit.api.fakes import MAX_BODY_BYTES, World
from tests.unit.api.handlers import HUGE_BYTES, Script, make_app
from tests.unit.config.reading import read
from tests.unit.http.client import Address, Client, open_files, request, served

WORK = request("POST", "/v1/work", "Content-Length: 2")
FREE = request("GET", "/v1/free")
HUGE = request("POST", "/v1/huge", "Content-Length: 2")


def configured(folder: Path) -> tuple[Config, ssl.SSLContext]:
    """A configuration with a new certificate for `gateway`, and a client that trusts that one."""
    chain, key = pem_files("gateway")
    names = Certificate(folder / "chain.pem", folder / "key.pem")
    names.chain.write_bytes(chain)
    names.key.write_bytes(key)
    return replace(read(""), tls=names), trusting(chain)


@both_loops
async def test_kept_connection_and_what_is_no_request(tmp_path: Path) -> None:
    config, trust = configured(tmp_path)

    app = make_app(World())
    async with (
        served(app, tls=server_context(config), trust=trust) as address,
        address.client() as client,
    ):
        body = b"x" * MAX_BODY_BYTES  # of many records
        for _ in range(2):
            echo = request("POST", "/v1/echo", f"Content-Length: {len(body)}")
            assert (await client.request(echo, body)).json["bytes"] == len(body)
        await client.send(b"GET / HTTP/1.1\r\nHost : gateway\r\n\r\n")
        assert (await client.response()).status == 400
        assert await client.ended()


@both_loops
async def test_client_that_leaves_is_noticed_and_a_slow_one_gets_it_all(tmp_path: Path) -> None:
    config, trust = configured(tmp_path)

    world, script = World(), Script()
    app = make_app(world, script)
    async with served(app, tls=server_context(config), trust=trust) as address:
        async with address.client() as client:
            await client.send(WORK.replace("\n", "\r\n").encode() + b"{}")
            await script.begun.wait()
            client.leave()
            await eventually(lambda: "cancelled gone=True" in script.events)
        async with address.client() as client:
            await client.send(HUGE.replace("\n", "\r\n").encode() + b"{}")
            await eventually(lambda: len(script.events) == 4, what="all of it written")
            assert len((await client.response()).body) == HUGE_BYTES
        await eventually(lambda: len(world.in_flight) == 0)


@logs("files_running_out")
@both_loops
async def test_handshakes_without_end_are_counted_and_the_longest_gives_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tls, trust = contexts("gateway")
    files = open_files()
    listener = Server(
        make_app(World()), ListenAddress("127.0.0.1", 0), files=files, tls=tls, connections_max=8
    )
    await listener.start()
    address = Address(int(listener.url.rpartition(":")[2]), trust)

    def handshaking() -> int:
        return listener._counts()["handshaking"]

    async with AsyncExitStack() as stack:
        stack.push_async_callback(listener.close)
        silent: list[Client] = []

        async def add_silent() -> None:
            silent.append(await stack.enter_async_context(Address(address.port).client()))

        for number in (1, 2):
            await add_silent()
            await eventually(lambda number=number: handshaking() == number)  # type: ignore[misc]
        await add_silent()  # of eight clients a quarter, and one more
        assert await silent.pop(0).ended()
        assert handshaking() == 2
        monkeypatch.setattr(resource, "getrlimit", lambda _: (8, 8))  # far fewer than are open
        assert not files.is_used_up
        async with address.client() as one:
            assert await silent.pop(0).ended()
            await one.send(FREE.replace("\n", "\r\n").encode())
            assert (await one.response()).status == 200
        monkeypatch.undo()
        assert handshaking() == 1
    assert files.metrics._freed[("handshakes",)].value == 2


@both_loops
async def test_handshake_has_the_time_of_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not by a later loop's time: uvloop's timers have a clock of their own.
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.1)
    tls, _ = contexts("gateway")
    anywhere = ListenAddress("127.0.0.1", 0)
    listener = Server(make_app(World()), anywhere, files=open_files(), tls=tls)
    await listener.start()
    try:
        async with Address(int(listener.url.rpartition(":")[2])).client() as silent:
            assert await silent.ended()
        await eventually(lambda: listener._counts()["handshaking"] == 0)
    finally:
        await listener.close()


async def test_another_certificate_is_shown_from_then_on(tmp_path: Path) -> None:
    config, trust = configured(tmp_path)
    context = server_context(config)
    assert context is not None

    async def ask(address: Address, trust: ssl.SSLContext) -> int:
        return (await replace(address, trust=trust).request(request("GET", "/v1/free"))).status

    async with served(make_app(World()), tls=context, trust=trust) as address:
        async with address.client() as early:
            assert (await early.request(request("GET", "/v1/free"))).status == 200
            _, newly = configured(tmp_path)
            renew(context, config)
            assert await ask(address, newly) == 200
            with pytest.raises(ssl.SSLCertVerificationError):
                await ask(address, trust)
            assert (await early.request(request("GET", "/v1/free"))).status == 200
        (tmp_path / "key.pem").write_bytes(pem_files("gateway")[1])  # of another certificate
        with pytest.raises(ConfigFaults, match="KEY_VALUES_MISMATCH"):
            renew(context, config)
        assert await ask(address, newly) == 200


@pytest.mark.parametrize(
    ("spoilt", "where", "found"),
    [("chain.pem", "tls", "what is none"), ("key.pem", "tls.key", "no such file")],
)
def test_certificate_that_will_not_do_is_a_fault_with_its_place(
    tmp_path: Path, spoilt: str, where: str, found: str
) -> None:
    config, _ = configured(tmp_path)
    if where == "tls":
        (tmp_path / spoilt).write_text("nonsense")
    else:
        (tmp_path / spoilt).unlink()
    with pytest.raises(ConfigFaults) as caught:
        server_context(config)
    (fault,) = caught.value.faults
    assert (fault.file, fault.path) == (str(config.source), where)
    assert found in fault.found
