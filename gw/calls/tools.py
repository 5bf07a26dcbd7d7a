"""Which channels may take a call, by the built-in tools it asks for: those that a provider runs.

No translation carries such a tool, so only channels that are spoken to in the client's protocol
count; on chat-completions, where the tools run over responses, those that speak that (contract §7:
Built-in tools). A model whose channels lack a tool refuses it by name; without any channel there is
nothing to say of tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actors.router import Candidate, ChannelView, candidates
from channels.registry import BUILTIN_TOOLS, ModelSpec
from channels.text import fit
from gw.calls.call import ChatCall

TOOL_CHARACTERS_MAX = 64
# The flag of a model that a tool wants (spec: Model catalog entry).
_CAPABILITIES = {"web_search": "web_search", "image_generation": "image_gen"}


@dataclass(frozen=True, slots=True)
class Choice:
    """The channels of a model that were looked at, in order, and those of them to try.

    `tool_lacking` is the tool for want of which there are none, fit to be shown.
    """

    considered: Sequence[Candidate]
    able: Sequence[Candidate]
    tool_lacking: str | None = None

    @property
    def without_tool(self) -> list[str]:
        """Channels that are not tried because they lack a tool."""
        return [one.channel_id for one in self.considered if one not in self.able]


def channels_for(call: ChatCall, channels: Mapping[str, ChannelView]) -> Choice:
    """Choose the channels for a call. Pure: what they are doing at the moment is theirs to say."""
    protocol = call.facts.protocol
    usual = candidates(call.model, protocol, channels, pin=call.pin, translations=call.translations)
    if not call.tools:
        return Choice(usual, usual)
    speaking = usual
    if call.tools_protocol is not None:
        speaking = candidates(call.model, call.tools_protocol, channels, pin=call.pin)
        known = {one.channel_id for one in speaking}
        usual = [*speaking, *(one for one in usual if one.channel_id not in known)]
    if not usual:
        return Choice((), ())
    spoken = call.tools_protocol or protocol
    # Of what a provider runs beside these two the configuration says nothing: it is asked itself.
    configured = frozenset(BUILTIN_TOOLS).intersection(call.tools)
    able = [
        one
        for one in speaking
        if one.protocol == spoken and configured <= channels[one.channel_id].spec.tools
    ]
    lacking = _not_run_for(call)
    if lacking is None and not able:
        offered = {tool for one in speaking for tool in channels[one.channel_id].spec.tools}
        lacking = next((tool for tool in call.tools if tool not in offered), call.tools[0])
    if lacking is not None:
        return Choice(usual, (), fit(lacking, TOOL_CHARACTERS_MAX))
    return Choice(usual, able)


def _not_run_for(call: ChatCall) -> str | None:
    """The first tool that the gateway does not run for the model, where it is the one to run it."""
    if call.tools_protocol is None:
        return None
    return next((tool for tool in call.tools if not is_run_for(tool, call.model)), None)


def is_run_for(tool: str, model: ModelSpec) -> bool:
    """Whether the gateway runs a tool for a model: not where the model's flags leave it out.

    A model of which no flag is configured is taken at its channels' word.
    """
    capability = _CAPABILITIES.get(tool)
    if capability is None:
        return False
    return not model.capabilities or capability in model.capabilities
