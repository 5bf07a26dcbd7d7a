"""The output of agents and of their cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from actors.wallet.money import format_credits, format_usd
from gw.agents.agent import AGENT_NOUN, AgentRecord
from gw.api.logs.agent_usage import KeyUsage, total
from gw.api.logs.filters import STATUSES
from gw.api.logs.window import Window
from gw.cli.output import Result, sheet, table
from gw.instants import format_instant

COLUMNS = ("id", "account_id", "name", "user", "effective_model", "kbs", "enabled")
KEY_COLUMNS = ("key_id", "key_name", "requests", "cost_usd", "cost")


def agent_result(agent: AgentRecord) -> Result:
    """One agent."""
    return Result(AGENT_NOUN.record(agent), sheet(AGENT_NOUN.readable(agent)))


def agent_list_result(agents: Sequence[AgentRecord]) -> Result:
    """Several agents."""
    records = [AGENT_NOUN.record(agent) for agent in agents]
    return Result({"agents": records}, table(records, COLUMNS))


def usage_result(
    agent: AgentRecord, window: Window, keys: Sequence[KeyUsage], credits_per_usd: Decimal
) -> Result:
    """Return the cost of an agent's keys in a window, highest first."""

    def cost(amount_nano_usd: int) -> Mapping[str, str]:
        return {
            "cost_usd": format_usd(amount_nano_usd),
            "cost": format_credits(amount_nano_usd, credits_per_usd),
        }

    whole = total(keys)
    by_key = [
        {
            "key_id": key.key_id,
            "key_name": key.key_name,
            "requests": key.requests,
            **cost(key.cost_nano_usd),
        }
        for key in sorted(keys, key=lambda key: (-key.cost_nano_usd, -key.requests, key.key_id))
    ]
    record = {
        "agent_id": agent.id,
        "name": agent.name,
        "period_from": format_instant(window.start),
        "period_to": format_instant(window.end),
        "requests": whole.requests,
        **cost(whole.cost_nano_usd),
        "input_tokens": whole.input_tokens,
        "output_tokens": whole.output_tokens,
        "cached_tokens": whole.cached_tokens,
    }
    counts = {status: whole.by_status.get(status, 0) for status in STATUSES}
    text = f"{sheet({**record, **counts})}\n\n{table(by_key, KEY_COLUMNS)}"
    return Result({**record, "status_counts": counts, "by_key": by_key}, text)
