"""A change made elsewhere reaches the cache of a running gateway by push"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from actors.clock import SystemClock
from actors.store.database import Database
from actors.store.errors import ConstraintViolated
from gw import accounts
from gw.agents import table as agents
from gw.agents.agent import NewAgent
from gw.keys import store
from gw.keys.cache import KeyCache
from gw.keys.hashing import KeyHasher, legacy_hash
from gw.keys.issue import import_hash, issue_key
from gw.keys.key import KeyWish
from gw.keys.key_text import new_key_text
from gw.keys.last_use import LastUse
from gw.keys.principal import KeyRefused
from gw.keys.sealing import KeySealer
from gw.keys.secret import Secret
from tests.support.aio import eventually
from tests.support.cached_keys import authenticated
from tests.unit.keys.fakes import CacheCounter

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
            await authenticated(self.cache, self.text)
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
    await accounts.change(world.other, world.account_id, {"enabled": False})


async def remove(world: Running) -> None:
    async with world.other.transaction() as session:
        await session.execute("DELETE FROM key_spend WHERE key_id = %s", (world.key_id,))
        await session.execute("DELETE FROM keys WHERE id = %s", (world.key_id,))


async def move(world: Running) -> None:
    closed = await accounts.create(world.other, "Bob")
    await accounts.change(world.other, closed.id, {"enabled": False})
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
        assert (await authenticated(world.cache, world.text)).allowed_models is None
        await store.change(world.other, world.key_id, {"allowed_models": []})
        await accounts.change(world.other, world.account_id, {"concurrency_limit": 3})

        async def is_so() -> bool:
            principal = await authenticated(world.cache, world.text)
            return principal.allowed_models == frozenset() and principal.concurrency_limit == 3

        await eventually(is_so)


async def test_changed_demands_for_data_are_seen(database_url: str) -> None:
    async with running(database_url) as world:
        assert (await authenticated(world.cache, world.text)).demand is None
        for of_account, of_this, joined in (
            (None, "retention=7", "retention=7"),
            ("region=eu; retention=30", "retention=7", "region=eu; retention=7"),
            ("region=eu; retention=30", None, "region=eu; retention=30"),
            (None, None, "None"),
        ):
            await accounts.change(world.other, world.account_id, {"data_demand": of_account})
            await store.change(world.other, world.key_id, {"data_demand": of_this})

            async def is_so(joined: str = joined) -> bool:
                return str((await authenticated(world.cache, world.text)).demand) == joined

            await eventually(is_so)


@pytest.mark.parametrize("text", ["", "eu", "region=EU", "retention=36501", "retention=07", "x;"])
async def test_no_demand_is_stored_that_cannot_be_read(database_url: str, text: str) -> None:
    async with running(database_url) as world:
        with pytest.raises(ConstraintViolated) as refused:
            await store.change(world.other, world.key_id, {"data_demand": text})
        assert refused.value.constraint_name == "is_demand"


async def test_changed_agent_and_its_organisations_models_are_seen(database_url: str) -> None:
    async with running(database_url) as world:
        agent = NewAgent(
            account_id=world.account_id,
            name="n",
            user="ann",
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
        found = (await authenticated(world.cache, text)).agent
        assert found is not None
        assert (found.id, found.user, found.kbs) == (agent_id, "ann", ("default", "a,b"))
        assert (found.image_generation, found.enabled, found.allowed_models) == (True, True, None)
        await agents.change(world.other, agent_id, {"enabled": False, "temperature": 0.25})
        await accounts.change(
            world.other, world.account_id, {"allowed_models": [], "default_model": "m"}
        )

        async def is_so() -> bool:
            found = (await authenticated(world.cache, text)).agent
            assert found is not None
            seen = (found.enabled, found.temperature, found.allowed_models, found.default_model)
            return seen == (False, 0.25, frozenset(), "m")

        await eventually(is_so)
        elsewhere = (await accounts.create(world.other, "Bob")).id
        foreign = KeyWish(account_id=elsewhere, name="n", kind="agent", agent_id=agent_id)
        text = (await issue_key(world.other, foreign, hasher=PUSH_HASHER, sealer=PUSH_SEALER)).text
        assert (await authenticated(world.cache, text)).agent is None


async def test_hash_imported_after_it_was_refused_works(database_url: str) -> None:
    async with running(database_url) as world:
        world.text = new_key_text()
        assert await world.reason() == "unknown"
        wish = KeyWish(account_id=world.account_id, name="early")
        await import_hash(world.other, wish, sha256=legacy_hash(world.text))
        await world.becomes(None)


async def test_last_use_is_written_without_a_push(database_url: str) -> None:
    async with running(database_url) as world:
        await authenticated(world.cache, world.text)
        await LastUse(keys=world.cache, database=world.mine).write()
        await disable(world)  # a push of its own, so that one before it would be here
        await eventually(lambda: bool(world.pushes))
        assert world.pushes == [f"key:{world.key_id}"]
        used_at = (await store.show(world.other, world.key_id)).last_used_at
        assert used_at is not None
