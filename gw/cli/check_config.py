"""`gw check-config`: parse the configuration and report every fault at once (running.md: Commands).

It changes nothing. It opens the certificate and shows when it expires, connects to Redis as a
gateway does, and reads the list of migrations and one key of a running database. A Redis or a
database that does not reply is a warning with the reason, so is a database that would refuse this
program; a secret that does not open its key is a fault. `--probe` requests each channel's list of
models, which is free of charge; exit code 1 means that a channel refused its key. The faults and
their texts are in `gw/config/faults.py`. Warnings leave the exit code 0.
"""

from __future__ import annotations

import asyncio
import os
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import msgspec

from actors.limits.redis_backend import scripts
from actors.store.database import Database
from actors.store.embedded.errors import EmbeddedFault
from actors.store.embedded.postgres import EmbeddedPostgres
from actors.store.errors import SessionsNotKept, StoreError
from actors.store.redis import RedisLink, RedisUnavailable
from actors.store.schema import MigrationFault, unapplied
from channels.http.client import HttpClient
from channels.redaction import Redactor
from channels.registry import ChannelSpec
from gw.admin.channel_probe import probe_models
from gw.cli.arguments import add_command
from gw.cli.context import read_config
from gw.cli.output import Result, sheet, table
from gw.config import faults
from gw.config.certificate import expires_at, server_context
from gw.config.config import Config
from gw.config.credentials import check_files
from gw.instants import format_instant, of_seconds
from gw.keys.issue import check_secret
from gw.keys.sealing import KeySealer, WrongSecret
from gw.keys.secret import Secret
from gw.keys.secret_file import SecretFault, read_if_made
from metrics.log_redaction import hide

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers


EXIT_OK, EXIT_NOT_TAKEN = 0, 1
# The channels that are probed at once.
PROBES_MAX = 8
# The limit for name resolution, connection and the list of migrations together.
DATABASE_SECONDS = 5.0
NOT_COMPARED = "the database was not compared with the migrations of this program"


def add(nouns: Subparsers) -> None:
    """Add the command to the command line."""
    text = "read the configuration; exit 2 and every fault with its place when there is one"
    parser = add_command(nouns, "check-config", text, check_config)
    parser.add_argument(
        "--probe", action="store_true", help="ask each channel for its list of models, too"
    )


def check_config(options: Namespace) -> Result:
    config = read_config(options)
    server_context(config)
    check_files(config)
    record: dict[str, Any] = {
        "ok": True,
        "file": str(config.source),
        "channels": len(config.registry.channels),
        "models": len(config.registry.models),
    }
    if expires := expires_at(config):
        record["certificate_expires_at"] = format_instant(of_seconds(expires))
    shown = sheet(record)
    cautions = [*config.cautions, *_unwritable(config), *asyncio.run(_servers(config))]
    record["warnings"] = faults.caution_records(cautions)
    text = [shown, *(f"warning: {caution}" for caution in cautions)]
    if not options.probe:
        return Result(record, "\n".join(text))
    probes = asyncio.run(_probed(config))
    record["probes"] = probes
    record["ok"] = is_good = all(one["ok"] for one in probes)
    exit_code = EXIT_OK if is_good else EXIT_NOT_TAKEN
    return Result(record, "\n".join([*text, "", _shown(probes)]), exit_code)


def _unwritable(config: Config) -> list[faults.Caution]:
    """Return a caution if this user can neither write nor create `data_dir`.

    It is no fault, because another user than the gateway's may check the file.
    """
    folders = (config.data_dir, *config.data_dir.parents)
    there = next(one for one in folders if os.path.exists(one))
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK, effective_ids=True):
        return []
    message = f"{config.data_dir} cannot be written here by this user: {there} does not allow it"
    return [faults.Caution(str(config.source), "data_dir", message)]


async def _servers(config: Config) -> list[faults.Caution]:
    """Return what is to be said of the database and of Redis. Raises ConfigFaults."""
    of_redis, of_database = await asyncio.gather(_checked_redis(config), _checked_database(config))
    return [*of_redis, *of_database]


async def _checked_redis(config: Config) -> list[faults.Caution]:
    """Return a caution if Redis does not reply, or not in the time that a gateway gives it."""
    if not config.redis_url:
        return []
    link = RedisLink(config.redis_url, scripts())
    try:
        await link.connect()
    except RedisUnavailable as error:
        message = f"account limits would hold in each process alone: {error}"
        return [faults.Caution(str(config.source), "redis_url", message)]
    finally:
        await link.close()
    return []


async def _checked_database(config: Config) -> list[faults.Caution]:
    """Return a caution if the database would refuse a start, or cannot be compared.

    Raises ConfigFaults for a secret that opens none of its keys.
    """
    path, message = "database_url" if config.database_url else "data_dir", ""
    try:
        async with asyncio.timeout(DATABASE_SECONDS):
            dsn = config.database_url or _embedded_url(config)
            if dsn:
                async with Database(dsn, size=1) as database:
                    await unapplied(database)
                    await _check_secret(config, database)
    except WrongSecret as error:
        raise faults.ConfigFaults([_secret_fault(config, str(error))]) from error
    except SecretFault as error:
        message = f"the secret was not compared with the keys of the database: {error}"
    except (MigrationFault, SessionsNotKept) as error:
        message = f"gw serve would refuse to start: {error}"
    except TimeoutError:
        message = f"{NOT_COMPARED}: it did not answer within {DATABASE_SECONDS:g} s"
    except (StoreError, EmbeddedFault, OSError) as error:
        message = f"{NOT_COMPARED}: {error}"
    return [faults.Caution(str(config.source), path, message)] if message else []


async def _check_secret(config: Config, database: Database) -> None:
    """Decrypt a stored key, as each start does. Raises WrongSecret, SecretFault."""
    ((has_keys,),) = await database.fetch_all("SELECT to_regclass('keys') IS NOT NULL")
    if not has_keys:
        return
    text = config.secret or read_if_made(config.data_dir)
    await check_secret(database, KeySealer(Secret(text, config.previous_secret)))


def _secret_fault(config: Config, why: str) -> faults.Fault:
    """Return the fault of the secret, without its text."""
    found = "another one than the keys of the database are stored under"
    return faults.Fault(str(config.source), "secret", found=found, allowed="theirs", hint=why)


def _embedded_url(config: Config) -> str | None:
    """Return the embedded PostgreSQL's address; None before its first start.

    Raises OSError, and EmbeddedFault if it is stopped, because starting it would write its files.
    """
    embedded = EmbeddedPostgres(config.data_dir)
    if not embedded.is_made:
        return None
    url = embedded.url_while_running()
    if url is None:
        raise EmbeddedFault("the embedded PostgreSQL runs only while a gateway or a command does")
    return url


async def _probed(config: Config) -> list[dict[str, Any]]:
    """Probe each channel, `PROBES_MAX` at once; return the results in the file's order."""
    registry = config.registry
    redactor = Redactor(registry.channels.values())
    hide(redactor.secrets)
    http = HttpClient(connect_seconds=config.timeouts.connect)
    turns = asyncio.Semaphore(PROBES_MAX)

    async def ask(channel: ChannelSpec) -> dict[str, Any]:
        async with turns:
            found = await probe_models(channel, registry, http, redactor)
        record: dict[str, Any] = msgspec.to_builtins(found)
        return record

    try:
        return list(await asyncio.gather(*map(ask, registry.channels.values())))
    finally:
        await http.close()


def _shown(probes: list[dict[str, Any]]) -> str:
    if not probes:
        return "no channel to probe"
    return table(probes, ("channel", "ok", "status", "message", "not_listed"))
