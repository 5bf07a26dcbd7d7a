"""Which nodes a call matches, and how they are kept."""

import asyncio
from collections.abc import Mapping
from uuid import UUID

import pytest

from actors.store.errors import StoreUnavailable
from actors.wallet.attribution import Attribution
from actors.wallet.messages import CallFacts
from gw.budgets.matching import LiveNodes
from gw.budgets.node import Node, Nodes, Spender
from tests.support.budgets import FakeBudgets, PlainNames, Read, digest_of, node
from tests.support.clock import FakeClock
from tests.support.rows import cases
from tests.support.steps import steps_of

NOW = 100.0
EVERY = (
    node(),
    node("user", "ann"),
    node("agent", "agent_1"),
    node("model", "m"),
    node("label", "team=search"),
    node("end_user", "ed"),
    node("run", "r1"),
    node("every_user"),
    node("every_end_user"),
    node("every_run"),
)


def nodes_of(*read: Read) -> Nodes:
    return Nodes(1, [Node(*one[:6], starts=NOW + one[6]) for one in read])


def matched(
    nodes: Nodes,
    *,
    user: str = "bob",
    agent: str | None = None,
    model: str = "other",
    end_user: str | None = None,
    run: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> set[str]:
    """The ids that a call matches, with the value where a node has a sum for each."""
    said = Attribution(end_user=end_user, run=run, labels=labels or {})
    facts = CallFacts(
        call_id=UUID(int=1),
        account_id="a",
        key_id="k",
        protocol="chat",
        model=model,
        submitted_at=0.0,
        attribution=said or None,
    )
    found = nodes.match(facts, Spender(user=user, agent_id=agent), NOW)
    return {f"{one.id}:{value}" if value else one.id for one, value in found}


@cases(
    "call, expected",
    ({}, {"every_user_month:bob"}),
    ({"user": "ann"}, {"user_ann_month"}),
    ({"agent": "agent_1"}, {"agent_agent_1_month", "every_user_month:bob"}),
    ({"agent": "agent_2", "model": "m"}, {"model_m_month", "every_user_month:bob"}),
    (
        {"labels": {"team": "search", "feature": "chat"}},
        {"label_team=search_month", "every_user_month:bob"},
    ),
    ({"labels": {"team": "x"}}, {"every_user_month:bob"}),
    ({"end_user": "ed"}, {"end_user_ed_month", "every_user_month:bob"}),
    ({"end_user": "eve"}, {"every_end_user_month:eve", "every_user_month:bob"}),
    ({"run": "r1"}, {"run_r1_month", "every_user_month:bob"}),
    ({"run": "r2"}, {"every_run_month:r2", "every_user_month:bob"}),
)
def test_a_call_matches_what_it_has(call: dict[str, object], expected: set[str]) -> None:
    found = matched(nodes_of(*EVERY), **call)  # type: ignore[arg-type]
    assert found == {"bud_account_month", *(f"bud_{one}" for one in expected)}


def test_the_specific_stands_in_place_of_the_general_of_its_period_alone() -> None:
    nodes = nodes_of(
        node("every_user", period="day"),
        node("every_user", period="month"),
        node("user", "ann", period="day"),
    )
    assert matched(nodes, user="ann") == {"bud_user_ann_day", "bud_every_user_month:ann"}
    assert matched(nodes) == {"bud_every_user_day:bob", "bud_every_user_month:bob"}


def test_one_that_has_not_started_takes_no_place_yet() -> None:
    nodes = nodes_of(node("every_user"), node("user", "ann", starts_in=1.0))
    assert matched(nodes, user="ann") == {"bud_user_ann_month", "bud_every_user_month:ann"}
    nodes = nodes_of(node("every_user"), node("user", "ann", starts_in=-1.0))
    assert matched(nodes, user="ann") == {"bud_user_ann_month"}


def test_matching_a_thousand_nodes_takes_as_long_as_matching_few() -> None:
    users = [node("user", f"user{number}", id=f"bud_{number}") for number in range(990)]
    few, many = nodes_of(*EVERY), nodes_of(*EVERY, *users)
    assert matched(many, user="user7") == {"bud_7", "bud_account_month"}
    steps = [
        steps_of(lambda nodes=nodes: matched(nodes, user="ann", end_user="eve", run="r1"))  # type: ignore[misc]
        for nodes in (few, many)
    ]
    assert steps[0] == steps[1]


async def test_nodes_are_read_when_the_version_of_the_account_says_so() -> None:
    budgets = FakeBudgets({"a": (3, [node()])})
    live = LiveNodes(budgets, FakeClock(), PlainNames())
    nodes = live.known("a", 0)
    assert nodes is not None  # it never had any
    assert nodes.version == 0
    assert live.known("a", 2) is None
    read = await live.read("a")
    assert read.version == 3
    assert matched(read) == {"bud_account_month"}
    assert live.known("a", 2) is live.known("a", 3) is live.known("a", 0) is read
    assert live.known("a", 4) is None
    assert budgets.reads == 1
    assert (await live.read("b")).version == 0  # an account that is gone


async def test_an_older_reading_replaces_no_newer_one() -> None:
    budgets = FakeBudgets({"a": (3, [node()])})
    live = LiveNodes(budgets, FakeClock(), PlainNames())
    await live.read("a")
    budgets.of["a"] = (2, [])
    await live.read("a")
    nodes = live.known("a", 3)
    assert nodes is not None
    assert nodes.version == 3


async def test_start_of_a_node_is_never_taken_for_too_early() -> None:
    clock = FakeClock()
    live = LiveNodes(FakeBudgets({"a": (1, [node(starts_in=5.0)])}), clock, PlainNames())
    before = clock.monotonic()
    nodes = await live.read("a")
    ((one, _),) = nodes.match(
        CallFacts(
            call_id=UUID(int=1), account_id="a", key_id="k", protocol="c", model="m", submitted_at=0
        ),
        Spender(user="u"),
        before,
    )
    assert one.starts == before + 5.0


async def test_accounts_used_last_are_kept() -> None:
    budgets = FakeBudgets({name: (1, [node()] * 3) for name in "abc"})
    live = LiveNodes(budgets, FakeClock(), PlainNames(), nodes_max=8)
    await live.read("a")
    await live.read("b")
    assert live.known("a", 1)
    await live.read("c")
    assert live.known("b", 1) is None
    assert live.known("a", 1)
    assert live.known("c", 1)


async def test_one_reading_serves_all_that_wait_and_survives_one_that_leaves() -> None:
    budgets = FakeBudgets({"a": (1, [node()])}, gate=asyncio.Event())
    live = LiveNodes(budgets, FakeClock(), PlainNames())
    readings = [asyncio.create_task(live.read("a")) for _ in range(3)]
    await asyncio.sleep(0)
    readings[0].cancel()
    await asyncio.sleep(0)
    assert budgets.gate is not None
    budgets.gate.set()
    assert [(await one).version for one in readings[1:]] == [1, 1]
    assert budgets.reads == 1
    assert readings[0].cancelled()
    budgets.error = StoreUnavailable("away")
    with pytest.raises(StoreUnavailable):
        await live.read("a")
    assert live.known("a", 1)


async def test_budgets_of_end_users_are_found_by_name_or_digest_as_these_are_kept() -> None:
    nodes = [node("end_user", "ed"), node("end_user", digest_of("eve")), node("every_end_user")]
    budgets, names = FakeBudgets({"a": (1, nodes)}), PlainNames()
    live = LiveNodes(budgets, FakeClock(), names)
    assert matched(await live.read("a"), end_user="ed") == {"bud_end_user_ed_month"}
    names.mode = "digest"
    assert live.known("a", 1) is None  # what was read goes by the mode of then
    read = await live.read("a")
    assert live.known("a", 1) is read
    assert matched(read, end_user=digest_of("ed")) == {"bud_end_user_ed_month"}
    (of_eve,) = matched(read, end_user=digest_of("eve"))
    assert of_eve.startswith("bud_end_user_eu_")
    names.mode = "off"
    assert [one.id for one in await live.read("a") if one.subject == "ed"] == []
