"""The processes of a load: a gateway with funded keys, its upstream, any other server.

The gateway is started as a user would start it, through its command line, on an embedded database
in a folder of its own; afterwards `gw ledger verify` must find nothing. What a process logs is
passed on to stderr.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from actors.store.database import Database
from actors.store.embedded.postgres import EmbeddedPostgres
from actors.wallet.money import NANO_PER_USD
from gw import accounts
from gw.config.load import load
from gw.keys.hashing import KeyHasher
from gw.keys.issue import issue_key
from gw.keys.key import KeyWish
from gw.keys.sealing import KeySealer
from gw.keys.secret import load_secret
from loadtests.rig.installation import Installation
from loadtests.rig.machine import Placement, available_cores, pin, place, tree
from loadtests.rig.process import Process, started, until_end
from loadtests.rig.processes import gw
from loadtests.rig.site import HERE, OWN, Host, Site, Tree

CREDIT_NANO_USD = 1_000_000 * NANO_PER_USD
AT_ONCE = 8


async def make_keys(config_path: Path, count: int) -> list[str]:
    """Make so many funded accounts with a key each beside the running gateway of this file.

    Raises StoreError, EmbeddedFault, ConfigFaults.
    """
    config = load(config_path, os.environ)
    secret = load_secret(config.secret, config.data_dir)
    hasher, sealer = KeyHasher(secret), KeySealer(secret)
    turns = asyncio.Semaphore(AT_ONCE)
    async with database_in(config.data_dir, size=AT_ONCE) as database:

        async def make(number: int) -> str:
            async with turns:
                name = f"bench {number}"
                account = await accounts.create(database, name, credit_nano_usd=CREDIT_NANO_USD)
                wish = KeyWish(account_id=account.id, name="bench")
                return (await issue_key(database, wish, hasher=hasher, sealer=sealer)).text

        return await asyncio.gather(*map(make, range(count)))


@asynccontextmanager
async def database_in(
    folder: Path, *, settings: Mapping[str, str] | None = None, **how: Any
) -> AsyncIterator[Database]:
    """The database of the embedded server of a folder, which runs meanwhile.

    `settings` are the server's, `how` is as `Database` has it. Raises StoreError, EmbeddedFault.
    """
    embedded = EmbeddedPostgres(folder, settings=settings or {})
    try:
        async with Database(await embedded.start(), **how) as database:
            yield database
    finally:
        await embedded.stop()


GATEWAY, REFERENCE, RIG = "gateway", "bare proxy", "rig alone"
LOOPBACK = "loopback"
READY_SECONDS = 60.0
MAX_CONCURRENCY = 20_000
CHAT_MODEL = {
    "max_output_tokens": 1000,
    "price": {"input": "1", "output": "10", "cached_input": "0.1"},
}
# Run in the tree whose gateway it is: its database may have another shape than ours.
MAKE_KEYS = """\
import asyncio, json, pathlib, sys
try:
    from loadtests.rig.targets import make_keys
except ImportError:  # of an older tree
    from loadtests.rig.processes import make_keys
print(json.dumps(asyncio.run(make_keys(pathlib.Path(sys.argv[1]), int(sys.argv[2])))))
"""


class Target(NamedTuple):
    """A server under test: where it is, whose CPU counts, which keys it takes."""

    name: str
    host: str
    port: int
    pid: int
    keys: Sequence[str]
    database_pid: int | None = None
    admin_url: str | None = None
    workers: Sequence[int] = ()  # its processes, where it is several
    suffix: str = ""  # of its tree
    config: Path | None = None  # of a gateway

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self.host}:{self.port}"


class Network(NamedTuple):
    """The hosts of the server under test and of the upstream; what is between, in words."""

    server: Host = HERE
    upstream: Host = HERE
    between: str = LOOPBACK
    relay_pid: int | None = None  # of what makes the delay, if a process does


class Rig(NamedTuple):
    """What surrounds the server under test: this process, which is the load, and others."""

    pids: Sequence[int]
    cores: int  # that it has, beside the server's


class Against(NamedTuple):
    """Another server to measure in the same run: how it is started, and where it listens then.

    The upstream's address is filled into its command and its environment.
    """

    name: str
    command: str
    url: str
    environ: Mapping[str, str] = {}
    translates: bool = False  # chat into messages, as our channels of that name


@contextmanager
def light_upstream(placement: Placement, host: Host = HERE) -> Iterator[Target]:
    """The upstream of canned bytes, as a target: asked without a server between."""
    command = ["loadtests.bench.upstream", host.address]
    with started(command, Site(host=host, cores=placement.upstream)) as process:
        yield Target(RIG, *_host_and_port(process.words["listen"]), process.pid, ["bench"])


@contextmanager
def reference(upstream: Target, placement: Placement, host: Host = HERE) -> Iterator[Target]:
    """The project's own bare proxy."""
    command = ["loadtests.bench.reference", host.address, upstream.host, str(upstream.port)]
    with started(command, Site(host=host, cores=placement.server)) as process:
        yield Target(REFERENCE, *_host_and_port(process.words["listen"]), process.pid, ["bench"])


@contextmanager
def other_server(
    against: Against, upstream: Target, placement: Placement, on: Host = HERE
) -> Iterator[Target]:
    """Any server that takes chat-completions."""
    host, port = _host_and_port(against.url)
    there: dict[str, Any] = {"upstream_url": upstream.url, "port": port}
    there |= {"upstream_host": upstream.host, "upstream_port": upstream.port}
    command = on.command(shlex.split(against.command.format(**there)))
    environ = {name: value.format(**there) for name, value in against.environ.items()}
    site = Site(host=on, cores=placement.server)
    with until_end(Process(command, site=site, is_heard=True, environ=environ)) as process:
        deadline = time.monotonic() + READY_SECONDS
        while not _is_listening(host, port):
            if process.popen.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{against.name} does not listen on {against.url}")
            time.sleep(0.05)
        suffix = f" of {against.name}"
        yield Target(against.name, host, port, process.pid, ["bench"], suffix=suffix)


@contextmanager
def gateway(
    upstream_url: str,
    *,
    channels: Mapping[str, str],
    models: Sequence[Mapping[str, Any]],
    accounts: int = 1,
    processes: int = 1,
    placement: Placement | None = None,
    name: str = GATEWAY,
    own: Tree = OWN,
    settings: Mapping[str, Any] | None = None,
    host: Host = HERE,
) -> Iterator[Target]:
    """A gateway with keys that will not run dry, one an account; verified when it has stopped.

    `channels` states which protocols each speaks, `settings` what its configuration has besides.
    Raises CommandFailed.
    """
    where = placement or place(available_cores())
    with tempfile.TemporaryDirectory(prefix="gw-bench-") as text:
        folder = Path(text)
        folder.chmod(0o711)
        written = {**_settings(folder, channels, models), **(settings or {})}
        written |= dict.fromkeys(("listen", "admin_listen"), f"{host.address}:0")
        site = Site(own, host, where.server)
        installed = Installation(
            folder / "gw.yaml", written, upstream_url, processes=processes, site=site
        )
        installed.write()
        with until_end(installed.serve(is_heard=True)) as process:
            (pid_file,) = (folder / "var").rglob("postmaster.pid")
            database = int(pid_file.read_text().split("\n", 1)[0])
            for one in tree(database):
                pin(one, where.database)
            make = [own.python, "-c", MAKE_KEYS, str(installed.config), str(accounts)]
            keys = json.loads(subprocess.check_output(make, cwd=own.folder))
            yield Target(
                name + own.suffix,
                *_host_and_port(process.url),
                process.pid,
                keys,
                database,
                process.admin_url,
                process.workers if processes > 1 else (),
                own.suffix,
                installed.config,
            )
        verify(installed.config, own)


def _settings(
    folder: Path,
    channels: Mapping[str, str],
    models: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    channel = {"max_concurrency": MAX_CONCURRENCY, "health": {"failures": 100}}
    return {
        "data_dir": str(folder / "var"),
        "channels": [
            {"id": name, "api_key": name, "protocols": protocols.split(), **channel}
            for name, protocols in channels.items()
        ],
        "models": [{**({} if "endpoint_type" in one else CHAT_MODEL), **one} for one in models],
    }


def verify(config: Path, own: Tree = OWN) -> None:
    """Print the output of `gw ledger verify`. Raises CommandFailed."""
    print(f"gw ledger verify: {gw(config, 'ledger', 'verify', own=own)['counts']}")


def _is_listening(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def _host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None, url
    assert parts.port is not None, url
    return parts.hostname, parts.port
