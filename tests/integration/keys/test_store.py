"""The table of keys on a real PostgreSQL."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from actors.store.database import Database
from actors.wallet.ledger import UnknownAccount
from gw import accounts as accounts
from gw.keys import store
from gw.keys.cache import KeyHasher, legacy_hash, new_key_text
from gw.keys.issue import (
    KeyWish,
    NotRevealable,
    Viewer,
    check_secret,
    import_hash,
    issue_key,
    reveal_key,
)
from gw.keys.secret import KeySealer, Secret, WrongSecret
from gw.keys.store import HashIsTaken, KeyChanges, KeyIsRevoked, UnknownKey
from tests.integration.keys.table import HASHER, SEALER, account_in, found_by, issue

ME = Viewer("ann", "here")


async def test_issued_key_is_found_by_its_text_and_nowhere_in_the_clear(
    database_url: str,
) -> None:
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
        await accounts.set_limits(database, account_id, {"rpm_limit": 7})
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


async def test_key_can_be_revealed_with_the_secret_only(database_url: str) -> None:
    async with Database(database_url) as database:
        issued = await issue(database, await account_in(database))
        assert await reveal_key(database, issued.id, SEALER, viewer=ME) == issued.text
        other = KeySealer(Secret("other"))
        with pytest.raises(WrongSecret):
            await reveal_key(database, issued.id, other, viewer=ME)
        with pytest.raises(UnknownKey):
            await reveal_key(database, "key_none", SEALER, viewer=ME)


async def test_other_secret_than_the_stored_keys_is_noticed_before_a_key_is_made(
    database_url: str,
) -> None:
    async with Database(database_url) as database:
        other = Secret("other")
        await check_secret(database, KeySealer(other))  # no key yet: any secret will do
        account_id = await account_in(database)
        await issue(database, account_id)
        wish = KeyWish(account_id=account_id, name="n")
        with pytest.raises(WrongSecret):
            await issue_key(database, wish, hasher=KeyHasher(other), sealer=KeySealer(other))
        assert len(await store.list_of_account(database, account_id)) == 1


async def test_imported_hash_works_and_cannot_be_revealed(database_url: str) -> None:
    async with Database(database_url) as database:
        account_id = await account_in(database)
        text = new_key_text()
        wish = KeyWish(account_id=account_id, name="early")
        digest = hashlib.sha256(text.encode()).digest()
        key_id = await import_hash(database, wish, sha256=digest)
        found = await found_by(database, text)
        assert found is not None
        assert found.principal.key_id == key_id
        assert not (await store.show(database, key_id)).is_revealable
        with pytest.raises(NotRevealable):
            await reveal_key(database, key_id, SEALER, viewer=ME)
        with pytest.raises(HashIsTaken):
            await import_hash(database, wish, sha256=digest)


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


async def test_key_of_an_account_that_is_not_there_is_refused(database_url: str) -> None:
    async with Database(database_url) as database:
        with pytest.raises(UnknownAccount, match="acct_none"):
            await issue(database, "acct_none")
        assert await store.list_of_account(database, "acct_none") == []


CHANGES: Sequence[KeyChanges] = (
    {"name": "other"},
    {"kind": "employee"},
    {"allowed_models": ["a", "b,c", 'd"e', "{}"]},
    {"allowed_models": []},
    {"allowed_models": None},
    {"expires_at": datetime(1999, 1, 1, tzinfo=UTC)},
    {"expires_at": None},
    {"enabled": False},
    {"enabled": True},
    {"account_logs": False},
    {"account_logs": True},
    {"spend_cap_nano_usd": 0},
    {"spend_cap_nano_usd": None},
    {"name": "third", "spend_cap_nano_usd": 9, "allowed_models": ["m"]},
)


@pytest.mark.parametrize("changes", CHANGES, ids=str)
async def test_change_sets_what_it_names_and_nothing_else(
    database_url: str, changes: KeyChanges
) -> None:
    async with Database(database_url) as database:
        issued = await issue(
            database,
            await account_in(database),
            agent_id="agent_0",
            allowed_models=["z"],
            expires_at=datetime(2100, 1, 1, tzinfo=UTC),
            account_logs=True,
            spend_cap_nano_usd=5,
        )
        before = await store.show(database, issued.id)
        await store.change(database, issued.id, changes)
        after = await store.show(database, issued.id)
        columns = set(before.__dataclass_fields__)
        expected: dict[str, Any] = {name: getattr(before, name) for name in columns}
        expected.update(changes)
        assert {name: getattr(after, name) for name in columns} == expected


async def test_revoked_key_stays_as_it_is(database_url: str) -> None:
    async with Database(database_url) as database:
        issued = await issue(database, await account_in(database))
        await store.revoke(database, issued.id)
        revoked = await store.show(database, issued.id)
        assert revoked.revoked_at is not None
        for changes in CHANGES:
            with pytest.raises(KeyIsRevoked):
                await store.change(database, issued.id, changes)
        await store.revoke(database, issued.id)
        assert await store.show(database, issued.id) == revoked


async def test_key_that_is_not_there_is_named(database_url: str) -> None:
    async with Database(database_url) as database:
        with pytest.raises(UnknownKey, match="key_none"):
            await store.show(database, "key_none")
        with pytest.raises(UnknownKey):
            await store.change(database, "key_none", {"enabled": True})
        with pytest.raises(UnknownKey):
            await store.revoke(database, "key_none")


async def test_refusal_has_one_reason(database_url: str) -> None:
    async with Database(database_url) as database:
        account_id = await account_in(database)
        issued = await issue(database, account_id)

        async def reason() -> str | None:
            found = await found_by(database, issued.text)
            assert found is not None
            return found.refusal

        assert await reason() is None
        await accounts.set_enabled(database, account_id, enabled=False)
        assert await reason() == "account_inactive"
        await store.change(database, issued.id, {"enabled": False})
        assert await reason() == "disabled"
        await store.revoke(database, issued.id)
        assert await reason() == "revoked"
