"""The channels for a call with built-in tools, which the provider runs.

No translation carries such a tool, so only channels of the client's protocol count; on
chat-completions, whose tools run over responses, those of responses (reference 2.7). Whether a
channel of the model has a tool is known from the configuration, and checked before anything is
held; the channels to try are chosen during the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.routing import Candidate, ChannelView, candidates
from channels.registry import BUILTIN_TOOLS, ChannelSpec, ModelSpec
from gw.calls.chat_request import ChatCall

# The model's flag for a tool (reference 4.2).
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
    """Return a tool that the model's channels lack; None also if no channel serves the model.

    `protocol`: the client's; `run_over`: the protocol that runs tools, different only on
    chat-completions; `reached`: the protocols to which the client's may be translated.
    """
    if not tools or model.endpoint_type is not None:
        return None
    speaking, reachable = [], set[str]()
    for binding in model.bindings:
        channel = channels[binding.channel_id]
        spoken = channel.spoken(binding.upstream_model or model.id)
        reachable |= spoken
        if run_over in spoken:
            speaking.append(channel)
    if not {protocol, run_over, *reached} & reachable:
        return None
    if run_over != protocol:
        for tool in tools:
            if not is_run_for(tool, model):
                return tool
    if any(_configured(tools) <= channel.tools for channel in speaking):
        return None
    offered = set().union(*(channel.tools for channel in speaking))
    return next((tool for tool in tools if tool not in offered), tools[0])


def is_run_for(tool: str, model: ModelSpec) -> bool:
    """Whether the gateway runs a tool for a model, unless the model's flags exclude it.

    For a model without flags the channels' configuration decides.
    """
    capability = _CAPABILITIES.get(tool)
    if capability is None:
        return False
    return not model.capabilities or capability in model.capabilities


def channels_for(
    call: ChatCall, channels: Mapping[str, ChannelView]
) -> tuple[list[Candidate], list[Candidate]]:
    """Return the channels considered, in order, and those of them to try, which have the tools."""
    protocol = call.facts.protocol
    if call.model.protocols is not None and protocol not in call.model.protocols:
        return [], []
    if not call.tools:
        usual = candidates(
            call.model, protocol, channels, pin=call.pin, translations=call.translations
        )
        return usual, usual
    considered = candidates(call.model, call.tools_protocol or protocol, channels, pin=call.pin)
    wanted = _configured(call.tools)
    return considered, [one for one in considered if wanted <= channels[one.channel_id].spec.tools]


def _configured(tools: Sequence[str]) -> frozenset[str]:
    """Return the tools that a configuration lists; the provider checks all others itself."""
    return frozenset(BUILTIN_TOOLS).intersection(tools)
