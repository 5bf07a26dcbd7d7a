"""The key of end users' digests: one for all processes, the same after the secret has changed."""

import asyncio

import pytest

from actors.store.database import Database
from gw.keys.end_users import is_digest, read_or_make, rotate
from gw.keys.rotation import rotate_keys
from gw.keys.sealing import KeySealer, WrongSecret
from gw.keys.secret import Secret

OLD, NEW = "the secret that came before", "the secret that comes after"


async def test_all_processes_make_the_same_digests_whatever_becomes_of_the_secret(
    database_url: str,
) -> None:
    async with Database(database_url) as database:
        sealer = KeySealer(Secret(OLD))
        keys = await asyncio.gather(*(read_or_make(database, sealer) for _ in range(5)))
        digests = {key.digest("acct_1", "ann") for key in keys}
        assert len(digests) == 1
        (digest,) = digests
        assert is_digest(digest)
        assert keys[0].digest("acct_2", "ann") != digest
        both = Secret(NEW, previous=OLD)
        assert (await read_or_make(database, KeySealer(both))).digest("acct_1", "ann") == digest
        with pytest.raises(WrongSecret):
            await read_or_make(database, KeySealer(Secret(NEW)))
        await rotate_keys(database, both)
        assert (await read_or_make(database, KeySealer(Secret(NEW)))).digest(
            "acct_1", "ann"
        ) == digest
        await rotate(database, KeySealer(Secret(NEW)))  # once more changes nothing
        with pytest.raises(WrongSecret):
            await read_or_make(database, sealer)
