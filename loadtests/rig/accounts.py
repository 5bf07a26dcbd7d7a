"""Makes many funded accounts with a key each, in one process and a few statements at a time."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from actors.store.database import Database
from actors.store.embedded.cluster import EmbeddedPostgres
from actors.wallet.pricing import NANO_PER_USD
from gw import accounts
from gw.config.load import load
from gw.keys.cache import KeyHasher
from gw.keys.issue import KeyWish, issue_key
from gw.keys.secret import KeySealer, load_secret

CREDIT_NANO_USD = 1_000_000 * NANO_PER_USD
AT_ONCE = 8


async def make_keys(config_path: Path, count: int) -> list[str]:
    """Make so many accounts beside the running gateway of this file; return their keys.

    Raises StoreError, EmbeddedFault, ConfigFaults.
    """
    config = load(config_path, os.environ)
    secret = load_secret(config.secret, config.data_dir)
    hasher, sealer = KeyHasher(secret), KeySealer(secret)
    embedded, turns = EmbeddedPostgres(config.data_dir), asyncio.Semaphore(AT_ONCE)
    dsn = await embedded.start()
    try:
        async with Database(dsn, size=AT_ONCE) as database:

            async def make(number: int) -> str:
                async with turns:
                    name = f"bench {number}"
                    account = await accounts.create(database, name, credit_nano_usd=CREDIT_NANO_USD)
                    wish = KeyWish(account_id=account.id, name="bench")
                    return (await issue_key(database, wish, hasher=hasher, sealer=sealer)).text

            return await asyncio.gather(*map(make, range(count)))
    finally:
        await embedded.stop()
