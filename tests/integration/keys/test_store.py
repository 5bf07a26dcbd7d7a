"""The tables of keys and accounts on a real PostgreSQL."""

from datetime import UTC, datetime

import pytest

from actors.store.database import Database
from actors.wallet.ledger import BalanceOutOfRange
from gw import accounts
from gw.keys import store
from gw.keys.hashing import legacy_hash
from gw.keys.issue import import_hash
from gw.keys.key import KeyWish
from gw.keys.key_text import new_key_text
from gw.keys.store import UnknownKey
from tests.integration.keys.table import HASHER, account_in, found_by, issue


async def test_issued_key_is_found_by_its_text_and_nowhere_in_the_clear(database_url: str) -> None:
    async with Database(database_url) as database:
        account_id = await account_in(database)
        expires_at = datetime(2100, 1, 1, tzinfo=UTC)
        issued = await issue(
            database,
            account_id,
            kind="agent",
            agent_id="agent_1",
            allowed_models=["m"],
            expires_at=expires_at,
            account_logs=True,
            spend_cap_nano_usd=5,
        )
        await accounts.change(database, account_id, {"rpm_limit": 7})
        found = await found_by(database, issued.text)
        assert found is not None
        assert found.refusal is None
        principal = found.principal
        assert (principal.key_id, principal.account_id) == (issued.id, account_id)
        assert (principal.kind, principal.agent_id) == ("agent", "agent_1")
        assert principal.allowed_models == frozenset({"m"})
        assert principal.expires_at == expires_at.timestamp()
        assert (principal.account_logs, principal.spend_cap_nano_usd) == (True, 5)
        assert (principal.rpm_limit, principal.concurrency_limit) == (7, None)
        assert principal.key_prefix == issued.text[:20]
        assert await found_by(database, new_key_text()) is None
        (row,) = await database.fetch_all("SELECT keys::text FROM keys")
        assert issued.text[20:] not in row[0]
        assert legacy_hash(issued.text).hex() not in row[0]


async def test_many_keys_are_found_at_once_each_by_its_text(database_url: str) -> None:
    async with Database(database_url) as database:
        ids: dict[str, str | None] = {new_key_text(): None, new_key_text(): None}
        for credit in (0, 7):
            account = await accounts.create(database, "Bob", credit_nano_usd=credit)
            for _ in range(3):
                issued = await issue(database, account.id)
                ids[issued.text] = issued.id
            text = new_key_text()
            wish = KeyWish(account_id=account.id, name=f"{credit}")
            ids[text] = await import_hash(database, wish, sha256=legacy_hash(text))
        hashes = {HASHER.lookup_hash(text): legacy_hash(text) for text in ids}
        readings = await store.find(database, hashes)
        assert {
            text: reading.key.principal.key_id
            for text in ids
            if (reading := readings.get(HASHER.lookup_hash(text))) is not None
        } == {text: key_id for text, key_id in ids.items() if key_id is not None}
        assert sorted(one.available_nano_usd for one in readings.values()) == [0] * 4 + [7] * 4


async def test_imported_hash_of_a_revoked_key_does_not_revive_it(database_url: str) -> None:
    async with Database(database_url) as database:
        account_id = await account_in(database)
        issued = await issue(database, account_id)
        await store.revoke(database, issued.id)
        wish = KeyWish(account_id=account_id, name="again")
        await import_hash(database, wish, sha256=legacy_hash(issued.text))
        found = await found_by(database, issued.text)
        assert found is not None
        assert (found.principal.key_id, found.refusal) == (issued.id, "revoked")


async def test_refusal_has_one_reason(database_url: str) -> None:
    async with Database(database_url) as database:
        account_id = await account_in(database)
        issued = await issue(database, account_id)

        async def reason() -> str | None:
            found = await found_by(database, issued.text)
            assert found is not None
            return found.refusal

        assert await reason() is None
        await accounts.change(database, account_id, {"enabled": False})
        assert await reason() == "account_inactive"
        await store.change(database, issued.id, {"enabled": False})
        assert await reason() == "disabled"
        await store.revoke(database, issued.id)
        assert await reason() == "revoked"


async def test_key_that_is_not_there_is_named(database_url: str) -> None:
    async with Database(database_url) as database:
        with pytest.raises(UnknownKey, match="key_none"):
            await store.show(database, "key_none")
        with pytest.raises(UnknownKey):
            await store.change(database, "key_none", {"enabled": True})
        with pytest.raises(UnknownKey):
            await store.revoke(database, "key_none")


async def test_account_has_so_many_keys_and_its_list_so_many_pages(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "KEYS_OF_ACCOUNT_MAX", 5)
    async with Database(database_url) as database:
        account_id, other = [await account_in(database) for _ in range(2)]
        made = [(await issue(database, account_id)).id for _ in range(5)]
        await store.revoke(database, made[0])
        with pytest.raises(store.TooManyKeys, match=account_id):
            await issue(database, account_id)
        await issue(database, other)

        async def pages(*, newest_first: bool) -> list[list[str]]:
            found: list[list[str]] = []
            after = None
            list_page = store.list_newest if newest_first else store.list_of_account
            while page := await list_page(database, account_id, limit=2, after=after):
                found.append([key.id for key in page])
                after = page[-1].created_at, page[-1].id
            return found

        assert await pages(newest_first=False) == [made[:2], made[2:4], made[4:]]
        assert await pages(newest_first=True) == [made[:2:-1], made[2:0:-1], made[:1]]


async def test_account_whose_credit_fails_is_not_there(database_url: str) -> None:
    async with Database(database_url) as database:
        with pytest.raises(BalanceOutOfRange):
            await accounts.create(database, "Ann", credit_nano_usd=2**63 - 1, with_trial=True)
        assert await accounts.list_all(database) == []
        assert (await accounts.create(database, "Bob")).name == "Bob"
