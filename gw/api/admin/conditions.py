"""Routes of conditions: what is wrong now."""

from __future__ import annotations

from msgspec import Struct

from gw.admin.channel_states import ChannelView
from gw.api.admin.table import AdminCall, Route, route
from gw.conditions import ChannelFacts, FoundCondition, conditions_of, read_facts


class ConditionsView(Struct, frozen=True):
    """What is wrong now; `silent_processes` have not reported in time."""

    conditions: list[FoundCondition]
    silent_processes: list[str]


async def list_conditions(call: AdminCall) -> ConditionsView:
    """What is wrong now, each with its runbook; failing attempts need metrics."""
    states = call.services.states
    reported, silent = await states.conditions()
    channels = [_facts(view) for view in await states.all(call.registry)]
    facts = await read_facts(call.services.database)
    return ConditionsView(conditions_of(facts, channels, reported), silent)


def _facts(view: ChannelView) -> ChannelFacts:
    """Return a channel over all processes; no process reports the attempts of the last hour."""
    breakers = {one.breaker for one in view.processes}
    worst = next((state for state in ("open", "half_open") if state in breakers), "closed")
    return ChannelFacts(
        id=view.id,
        state=worst if view.state == "open_for_calls" else "withdrawn",
        in_use=view.slots_in_use,
        slots=view.slots_limit,
        keys=view.keys,
        aside=view.keys_aside,
    )


ROUTES: tuple[Route, ...] = (route("GET", "conditions", list_conditions),)
