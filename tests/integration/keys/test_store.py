"""Keys and accounts on a real PostgreSQL."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from actors.clock import SystemClock
from actors.store.database import Database
from actors.wallet.ledger import BalanceOutOfRange
from gw import accounts
from gw.agents import table as agents
from gw.agents.table import NewAgent
from gw.keys import store
from gw.keys.cache import KeyCache
from gw.keys.hashing import KeyHasher, legacy_hash
from gw.keys.issue import KeyWish, import_hash, issue_key
from gw.keys.key_text import new_key_text
from gw.keys.last_use import LastUse
from gw.keys.principal import KeyRefused
from gw.keys.sealing import KeySealer
from gw.keys.secret import Secret
from gw.keys.store import UnknownKey
from tests.integration.keys.table import HASHER, account_in, found_by, issue
from tests.support.aio import eventually
from tests.unit.keys.fakes import CacheCounter


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
        await accounts.set_enabled(database, account_id, enabled=False)
        assert await reason() == "account_inactive"
        await store.change(database, issued.id, {"enabled": False})
        assert await reason() == "disabled"
        await store.revoke(database, issued.id)
        assert await reason() == "revoked"


# --- When keys were last used, on a real PostgreSQL ---


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
            while page := await store.list_of_account(
                database, account_id, limit=2, after=after, newest_first=newest_first
            ):
                found.append([key.id for key in page])
                after = page[-1].created_at, page[-1].id
            return found

        assert await pages(newest_first=False) == [made[:2], made[2:4], made[4:]]
        assert await pages(newest_first=True) == [made[:2:-1], made[2:0:-1], made[:1]]


async def test_last_use_only_moves_forward(database_url: str) -> None:
    async with Database(database_url) as database:
        account_id = await account_in(database)
        first, second = [await issue(database, account_id) for _ in range(2)]
        base = datetime(2026, 11, 21, tzinfo=UTC)

        async def used() -> list[datetime | None]:
            keys = await store.list_of_account(database, account_id, limit=100)
            return [key.last_used_at for key in keys]

        assert await used() == [None, None]
        at = base.timestamp()
        await store.write_last_use(database, {first.id: at, "key_none": at})
        assert await used() == [base, None]
        await store.write_last_use(database, {first.id: at - 1, second.id: at + 1.5})
        assert await used() == [base, base + timedelta(seconds=1.5)]
        await store.write_last_use(database, {})


# Makes the server look keys up one by one, in the order they are given, as it does in large tables.
LOOK_UP_ONE_BY_ONE = """
DO $$
DECLARE
    kind text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['hashjoin', 'mergejoin', 'seqscan'] LOOP
        EXECUTE format('ALTER DATABASE %I SET enable_%s = off', current_database(), kind);
    END LOOP;
END $$
"""


async def test_last_uses_written_from_many_sides_do_not_block_each_other(database_url: str) -> None:
    async with Database(database_url) as database:
        await database.execute(LOOK_UP_ONE_BY_ONE)
        account_id = await account_in(database)
        ids = [(await issue(database, account_id)).id for _ in range(30)]
    async with Database(database_url, size=8) as database:
        rng = random.Random(7)

        async def write(seconds: float) -> None:
            shuffled = rng.sample(ids, k=len(ids))
            await store.write_last_use(database, dict.fromkeys(shuffled, seconds))

        await asyncio.gather(*(write(float(seconds)) for seconds in range(1, 101)))
        keys = await store.list_of_account(database, account_id, limit=100)
        assert {key.last_used_at for key in keys} == {datetime.fromtimestamp(100, UTC)}


# --- A change made elsewhere reaches the cache of a running gateway by push ---

SECRET = Secret("integration")
PUSH_HASHER, PUSH_SEALER = KeyHasher(SECRET), KeySealer(SECRET)


@dataclass
class Running:
    """The part of a gateway that authenticates, and another process's connection."""

    cache: KeyCache
    mine: Database
    other: Database
    pushes: list[str]
    account_id: str
    key_id: str
    text: str

    async def reason(self) -> str | None:
        try:
            await self.cache.authenticate(self.text)
        except KeyRefused as refused:
            return refused.reason
        return None

    async def becomes(self, reason: str | None) -> None:
        async def is_so() -> bool:
            return await self.reason() == reason

        await eventually(is_so, what=f"the reason {reason}")


@asynccontextmanager
async def running(url: str) -> AsyncIterator[Running]:
    async with Database(url) as mine, Database(url) as other:
        # Entries never go out of date by themselves: only a push can change the answer.
        cache = KeyCache(mine, PUSH_HASHER, SystemClock(), CacheCounter(), ttl_seconds=1e9)
        pushes: list[str] = []

        def on_push(payload: str) -> None:
            pushes.append(payload)
            cache.invalidate(payload)

        account = await accounts.create(other, "Ann")
        wish = KeyWish(account_id=account.id, name="n")
        issued = await issue_key(other, wish, hasher=PUSH_HASHER, sealer=PUSH_SEALER)
        await mine.listen("gw_changes", on_push, cache.clear)
        yield Running(cache, mine, other, pushes, account.id, issued.id, issued.text)


Change = Callable[[Running], Awaitable[None]]


async def revoke(world: Running) -> None:
    await store.revoke(world.other, world.key_id)


async def disable(world: Running) -> None:
    await store.change(world.other, world.key_id, {"enabled": False})


async def disable_account(world: Running) -> None:
    await accounts.set_enabled(world.other, world.account_id, enabled=False)


async def remove(world: Running) -> None:
    async with world.other.transaction() as session:
        await session.execute("DELETE FROM key_spend WHERE key_id = %s", (world.key_id,))
        await session.execute("DELETE FROM keys WHERE id = %s", (world.key_id,))


async def move(world: Running) -> None:
    closed = await accounts.create(world.other, "Bob")
    await accounts.set_enabled(world.other, closed.id, enabled=False)
    moved = "UPDATE keys SET account_id = %s WHERE id = %s"
    await world.other.execute(moved, (closed.id, world.key_id))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (revoke, "revoked"),
        (disable, "disabled"),
        (disable_account, "account_inactive"),
        (remove, "unknown"),
        (move, "account_inactive"),
    ],
)
async def test_key_refused_elsewhere_is_refused_here(
    database_url: str, change: Change, reason: str
) -> None:
    async with running(database_url) as world:
        assert await world.reason() is None
        await change(world)
        await world.becomes(reason)


async def test_edited_key_and_limited_account_are_seen(database_url: str) -> None:
    async with running(database_url) as world:
        assert (await world.cache.authenticate(world.text)).allowed_models is None
        await store.change(world.other, world.key_id, {"allowed_models": []})
        await accounts.set_limits(world.other, world.account_id, {"concurrency_limit": 3})

        async def is_so() -> bool:
            principal = await world.cache.authenticate(world.text)
            return principal.allowed_models == frozenset() and principal.concurrency_limit == 3

        await eventually(is_so)


async def test_changed_agent_and_its_organisations_models_are_seen(database_url: str) -> None:
    async with running(database_url) as world:
        agent = NewAgent(
            account_id=world.account_id,
            name="n",
            user_name="ann",
            system_prompt="Be brief.",
            model=None,
            temperature=None,
            web_search=False,
            image_generation=True,
            kbs=["default", "a,b"],
        )
        agent_id = await agents.create(world.other, agent)
        wish = KeyWish(account_id=world.account_id, name="n", kind="agent", agent_id=agent_id)
        text = (await issue_key(world.other, wish, hasher=PUSH_HASHER, sealer=PUSH_SEALER)).text
        found = (await world.cache.authenticate(text)).agent
        assert found is not None
        assert (found.id, found.user, found.kbs) == (agent_id, "ann", ("default", "a,b"))
        assert (found.image_generation, found.enabled, found.allowed_models) == (True, True, None)
        await agents.change(world.other, agent_id, {"enabled": False, "temperature": 0.25})
        await accounts.set_models(
            world.other, world.account_id, {"allowed_models": [], "default_model": "m"}
        )

        async def is_so() -> bool:
            found = (await world.cache.authenticate(text)).agent
            assert found is not None
            seen = (found.enabled, found.temperature, found.allowed_models, found.default_model)
            return seen == (False, 0.25, frozenset(), "m")

        await eventually(is_so)
        elsewhere = (await accounts.create(world.other, "Bob")).id
        foreign = KeyWish(account_id=elsewhere, name="n", kind="agent", agent_id=agent_id)
        text = (await issue_key(world.other, foreign, hasher=PUSH_HASHER, sealer=PUSH_SEALER)).text
        assert (await world.cache.authenticate(text)).agent is None


async def test_hash_imported_after_it_was_refused_works(database_url: str) -> None:
    async with running(database_url) as world:
        world.text = new_key_text()
        assert await world.reason() == "unknown"
        wish = KeyWish(account_id=world.account_id, name="early")
        await import_hash(world.other, wish, sha256=legacy_hash(world.text))
        await world.becomes(None)


async def test_last_use_is_written_without_a_push(database_url: str) -> None:
    async with running(database_url) as world:
        await world.cache.authenticate(world.text)
        await LastUse(keys=world.cache, database=world.mine).write()
        await disable(world)  # a push of its own, so that one before it would be here
        await eventually(lambda: bool(world.pushes))
        assert world.pushes == [f"key:{world.key_id}"]
        used_at = (await store.show(world.other, world.key_id)).last_used_at
        assert used_at is not None


# --- The table of accounts on a real PostgreSQL ---


async def test_account_whose_credit_fails_is_not_there(database_url: str) -> None:
    async with Database(database_url) as database:
        with pytest.raises(BalanceOutOfRange):
            await accounts.create(database, "Ann", credit_nano_usd=2**63 - 1, with_trial=True)
        assert await accounts.list_all(database) == []
        assert (await accounts.create(database, "Bob")).name == "Bob"
