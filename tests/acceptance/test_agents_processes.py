"""Agents in every process of a gateway: what is changed holds at once, a conversation stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.agents import SETTINGS, said, sent, write_base
from tests.support.house import House, house
from tests.support.scrape import Admin
from tests.support.tenants import Tenant

pytestmark = pytest.mark.long

COUNT = 2
CALLS = 24  # each on a connection of its own, so that every process has some
LABELS = ["outcome", "process"]


@pytest.fixture
def many(database_url: str, tmp_path: Path) -> Iterator[House]:
    """A house whose gateway is several processes."""
    with house(database_url, tmp_path, processes=COUNT, **SETTINGS) as built:
        yield built


def statuses(agent: Tenant, **members: Any) -> set[int]:
    return {agent.client.chat(**members).status for _ in range(CALLS)}


def processes(h: House) -> set[str]:
    """Which processes have served calls of agents."""
    page = Admin(h.gateway.admin_url).page()
    return {values[1] for values in page.series("gw_agent_calls_total")}


def test_what_is_changed_holds_with_the_next_request_in_every_process(
    many: House, tmp_path: Path
) -> None:
    h = many
    tenant = h.tenant()
    of = ("--account", tenant.account, "--kb", "log")
    write_base(
        h, tenant, tmp_path / "log", {"Tides": "High water.\n"}, "--kb", "log", "--restricted"
    )
    h.gw("kb", "grant", *of, "--to-user", "ann")
    agent = h.agent(tenant, user_name="ann", kbs=["log"], model="shared")
    question: dict[str, Any] = {"messages": [said("High water?")]}
    assert statuses(agent, **question) == {200}
    assert len(processes(h)) == COUNT
    for change, undo in (
        (("agent", "disable", agent.agent_id), ("agent", "enable", agent.agent_id)),
        (
            ("account", "set", tenant.account, "--allow", "other"),
            ("account", "set", tenant.account, "--allow-all"),
        ),
        (("kb", "revoke", *of, "--to-user", "ann"), ("kb", "grant", *of, "--to-user", "ann")),
    ):
        h.gw(*change)
        assert statuses(agent, **question) == {403}
        h.gw(*undo)
        assert statuses(agent, **question) == {200}
    h.gw("agent", "set", agent.agent_id, "--model", "sees", "--no-kb")
    for _ in range(CALLS):
        assert agent.client.chat(**question).status == 200
        assert (sent(h)["model"], len(sent(h)["messages"])) == ("sees", 2)
    h.gw("key", "revoke", agent.key_id)
    assert statuses(agent) == {401}
