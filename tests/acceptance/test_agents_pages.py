"""Pages of knowledge bases in the calls of agents: which, where, and that they stay data."""

import re
from pathlib import Path
from typing import Any

import pytest

from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from tests.acceptance.agents import ME, NOTICE, SETTINGS, message_of, write_base
from tests.support.rows import each

pytestmark = pytest.mark.long

__all__ = ["SETTINGS"]

DENIED = (403, "permission_error", "permission_denied")
PAGES = {
    "Tides": '---\ntitle: The "tides"\n---\nHigh water at the quay is at noon.\n',
    "Moorings": "# Moorings\nThe quay has twelve rings. " + "Rings of iron. " * 60 + "\n",
    "zh": "# 潮汐\n中午是高潮，码头很忙。\n",
}
ASK = message_of("When is high water?")
TIDES = (
    "<reference_data>\n"
    f"{NOTICE}\n"
    '<page id="Tides" kb_id="sea" title="The &quot;tides&quot;">\n'
    "High water at the quay is at noon.\n\n"
    "</page>\n"
    "</reference_data>"
)


@pytest.fixture
def agent(h: Deployment, tenant: Tenant, tmp_path: Path) -> Tenant:
    """A key of an agent with the base `sea`."""
    write_base(h, tenant, tmp_path / "sea", PAGES, "--kb", "sea")
    return h.agent(tenant, kbs=["sea"])


def reading(h: Deployment) -> list[tuple[str, str]]:
    """Id and body of each page in the call that was sent last."""
    texts = [one["content"] for one in h.upstream.last_body()["messages"] if one["role"] == "user"]
    (frame,) = [one for one in texts if isinstance(one, str) and one.startswith("<reference")]
    return re.findall(r'<page id="(.*?)" kb_id=".*?" title=".*?">\n(.*?)\n</page>', frame, re.S)


def test_pages_stand_directly_before_the_latest_question(h: Deployment, agent: Tenant) -> None:
    history = [message_of("Moorings?"), message_of("Twelve.", "assistant")]
    after = [message_of("I look it up.", "assistant"), message_of("noon", "system")]
    assert agent.client.chat(messages=[*history, ASK, *after]).status == 200
    assert h.upstream.last_body()["messages"] == [ME, *history, message_of(TIDES), ASK, *after]
    parts = [{"type": "text", "text": "High"}, {"type": "x"}, {"type": "text", "text": "water"}]
    assert agent.client.chat(messages=[message_of(parts)]).status == 200
    assert h.upstream.last_body()["messages"] == [ME, message_of(TIDES), message_of(parts)]


@each(
    "messages",
    [
        [message_of("zebra xylophone")],
        [message_of("")],
        [message_of(" \n")],
        [message_of([])],
        [message_of(None)],
        [message_of([{"type": "text"}])],
        [message_of("High water", "system")],
        [message_of("& | ! <-> ' \" \\ : *")],
        [message_of("x" * 2000 + " high water")],
    ],
)
def test_nothing_is_added_where_nothing_is_found(
    h: Deployment, agent: Tenant, messages: Any
) -> None:
    assert agent.client.chat(messages=messages).status == 200
    assert h.upstream.last_body()["messages"] == [ME, *messages]


def test_several_bases_are_searched_together(h: Deployment, agent: Tenant, tmp_path: Path) -> None:
    stranger = h.tenant()
    write_base(h, stranger, tmp_path / "air", {"Wind": "High wind, low water.\n"}, "--kb", "air")
    h.gw("kb", "grant", "--account", stranger.account, "--kb", "air", "--to-account", agent.account)
    write_base(h, agent, tmp_path / "own", {"Log": "# High water\nToday.\n"}, "--user", "ann")
    shared = f"{stranger.account}:air"
    h.gw(
        *("agent", "set", agent.agent_id, "--user", "ann"),
        *("--kb", "sea", "--kb", "default", "--kb", shared),
    )
    assert agent.client.chat(messages=[ASK]).status == 200
    assert {one for one, _ in reading(h)} == {"Log", "Tides", "Wind"}
    assert reading(h)[0][0] == "Log"
    assert f'kb_id="{shared}"' in h.upstream.last_body()["messages"][1]["content"]


def test_a_base_that_its_user_may_not_read_ends_the_agents_calls(
    h: Deployment, tenant: Tenant, tmp_path: Path
) -> None:
    of = ("--account", tenant.account, "--kb", "log")
    write_base(h, tenant, tmp_path / "log", PAGES, "--kb", "log", "--restricted")
    h.gw("kb", "grant", *of, "--to-user", "ann")
    agent = h.agent(tenant, user="ann", kbs=["log", "default"])
    assert agent.client.chat(messages=[ASK]).status == 200
    h.gw("kb", "revoke", *of, "--to-user", "ann")
    for content in (ASK["content"], "zebra", ""):
        reply = agent.client.chat(messages=[message_of(content)])
        assert reply.refusal == DENIED
        assert h.row(reply.trace)["status"] == "rejected"
    assert h.metrics("gw_agent_calls_total")['outcome="kb_inaccessible"'] >= 3
    h.gw("kb", "grant", *of, "--to-user", "ann")
    assert agent.client.chat(messages=[ASK]).status == 200
    h.gw("kb", "remove", *of)
    assert agent.client.chat(messages=[ASK]).refusal == DENIED
    h.gw("agent", "set", agent.agent_id, "--no-kb")
    assert agent.client.chat(messages=[ASK]).status == 200
    assert h.upstream.last_body()["messages"] == [ME, ASK]
