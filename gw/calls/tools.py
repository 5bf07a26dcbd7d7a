"""Which channels may take a call, by the built-in tools it asks for: those that a provider runs.

No translation carries such a tool, so only channels that are spoken to in the client's protocol
count; on chat-completions, where the tools run over responses, those that speak that (contract §7:
Built-in tools). Whether any channel of a model has a tool is known from the configuration alone,
and asked before anything is held; which of them are tried is decided when the call is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.router import Candidate, ChannelView, candidates
from channels.registry import BUILTIN_TOOLS, ChannelSpec, ModelSpec
from gw.calls.call import ChatCall

# The flag of a model that a tool wants (spec: Model catalog entry).
_CAPABILITIES = {"web_search": "web_search", "image_generation": "image_gen"}


def lacking_tool(
    tools: Sequence[str],
    model: ModelSpec,
    channels: Mapping[str, ChannelSpec],
    *,
    protocol: str,
    run_over: str,
    reached: Sequence[str] = (),
) -> str | None:
    """The tool that the channels of the model lack; None also where the model has no channel.

    `protocol` is the client's, `run_over` the one that tools are run over, which is the same but on
    chat-completions; `reached` are those the client's may be translated to.
    """
    if not tools or model.endpoint_type is not None:
        return None
    bound = [
        (channel, channel.spoken(binding.upstream_model or model.id))
        for binding in model.bindings
        for channel in (channels[binding.channel_id],)
    ]
    if not any({protocol, run_over, *reached} & spoken for _, spoken in bound):
        return None
    if run_over != protocol:
        for tool in tools:
            if not is_run_for(tool, model):
                return tool
    speaking = [channel for channel, spoken in bound if run_over in spoken]
    if any(_configured(tools) <= channel.tools for channel in speaking):
        return None
    offered = {tool for channel in speaking for tool in channel.tools}
    return next((tool for tool in tools if tool not in offered), tools[0])


def is_run_for(tool: str, model: ModelSpec) -> bool:
    """Whether the gateway runs a tool for a model: not where the model's flags leave it out.

    A model of which no flag is configured is taken at its channels' word.
    """
    capability = _CAPABILITIES.get(tool)
    if capability is None:
        return False
    return not model.capabilities or capability in model.capabilities


def channels_for(
    call: ChatCall, channels: Mapping[str, ChannelView]
) -> tuple[list[Candidate], list[Candidate]]:
    """The channels considered, in order, and those of them to try, which have the tools."""
    protocol = call.facts.protocol
    if not call.tools:
        usual = candidates(
            call.model, protocol, channels, pin=call.pin, translations=call.translations
        )
        return usual, usual
    considered = candidates(call.model, call.tools_protocol or protocol, channels, pin=call.pin)
    wanted = _configured(call.tools)
    return considered, [one for one in considered if wanted <= channels[one.channel_id].spec.tools]


def _configured(tools: Sequence[str]) -> frozenset[str]:
    """Of what a provider runs beside these the configuration says nothing: it judges itself."""
    return frozenset(BUILTIN_TOOLS).intersection(tools)
