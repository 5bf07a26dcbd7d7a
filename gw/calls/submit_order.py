"""The channels that may make what a call asks for, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from actors.directory import ChannelDirectory
from actors.router import Candidate, candidates
from gw.calls.exchange_upstream import SubmitCall, dialect_of
from gw.calls.job import Pin
from gw.errors.table import INVALID_REQUEST, GatewayError


class PinnedCall(SubmitCall, Protocol):
    """A call whose request may name what only one channel knows."""

    @property
    def pins(self) -> Sequence[Pin]: ...


def order_of(call: PinnedCall, channels: ChannelDirectory) -> list[Candidate]:
    """The channels to ask. Raises GatewayError where the request names another one's."""
    order = candidates(call.model, call.facts.protocol, channels)
    for pin in call.pins:
        order = [one for one in order if one.channel_id == pin.channel_id]
        if not order:
            raise GatewayError(
                INVALID_REQUEST,
                f"{pin.param}: the model `{call.model.id}` is not served where this was made.",
                param=pin.param,
            )
    return [
        one for one in order if dialect_of(one, channels[one.channel_id].spec).makes(call.request)
    ]
