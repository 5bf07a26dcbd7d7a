"""Keys of agents in the cache: what concerns the agent concerns them, and it is kept once."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.keys.fakes import Row
from tests.unit.keys.test_cache_races import held_at_answer
from tests.unit.keys.world import KEY, OTHER, World, in_world


def agent(**changes: Any) -> dict[str, Any]:
    return {
        "id": "agent_1",
        "user": "ann",
        "system_prompt": 'Say "ahoy".',
        "model": None,
        "temperature": 0.5,
        "web_search": True,
        "image_generation": False,
        "kbs": ["default"],
        "enabled": True,
        "default_model": "m",
        "allowed_models": ["m"],
        **changes,
    }


def row(key_id: str, text: str, **changes: Any) -> Row:
    return Row(key_id, text, kind="agent", agent_id="agent_1", **{"agent": agent(), **changes})


@in_world(row("key_1", KEY))
async def test_a_key_comes_with_its_agent(world: World) -> None:
    principal = await world.cache.authenticate(KEY)
    found = principal.agent
    assert found is not None
    assert (found.id, found.user, found.kbs) == ("agent_1", "ann", ("default",))
    assert found.system_prompt == b'"Say \\"ahoy\\"."'
    assert found.allowed_models == frozenset({"m"})
    assert "ahoy" not in repr(principal) + repr(found)


@in_world(row("key_1", KEY), row("key_2", OTHER))
async def test_keys_of_an_agent_share_it_and_hear_of_its_changes(world: World) -> None:
    one, two = [(await world.cache.authenticate(text)).agent for text in (KEY, OTHER)]
    assert one is two is not None
    for changed in world.table.rows:
        changed.agent = agent(enabled=False)
    world.cache.invalidate("agent:agent_2")
    assert world.cache.try_authenticate(KEY) is not None
    world.cache.invalidate("agent:agent_1")
    for text in (KEY, OTHER):
        assert world.cache.try_authenticate(text) is None
        found = (await world.cache.authenticate(text)).agent
        assert found is not None
        assert found.enabled is False


@in_world(row("key_1", KEY, agent=None))
async def test_an_agent_that_was_not_there_is_heard_of_when_it_is(world: World) -> None:
    assert (await world.cache.authenticate(KEY)).agent is None
    world.row.agent = agent()
    world.cache.invalidate("agent:agent_1")
    assert (await world.cache.authenticate(KEY)).agent is not None


@in_world(row("key_1", KEY))
async def test_a_read_that_a_change_of_the_agent_overtook_is_made_again(world: World) -> None:
    world.table.holds_reads = True
    asked = asyncio.create_task(world.cache.authenticate(KEY))
    await held_at_answer(world)
    world.row.agent = agent(enabled=False)
    world.cache.invalidate("agent:agent_1")
    world.table.holds_reads = False
    world.table.held[0].release()
    found = (await asked).agent
    assert found is not None
    assert found.enabled is False
