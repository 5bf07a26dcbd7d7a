"""What a call demands for its data: of its headers, and refused where no channel keeps it.

Which channel keeps it is decided where a lease is granted (`actors/channel.py`), for every kind of
call. Here a demand that none can keep is refused before anything is held (reference 10.7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from actors.channel import ChannelActor
from actors.routing import Candidate
from channels.data_promise import DataDemand, InvalidDemand, read_demand
from gw.errors import INVALID_REQUEST, GatewayError, unkept

HEADER: Final = "x-gateway-data"


def read_header(values: Sequence[str]) -> DataDemand:
    """Return the demand of the header's values, at least one. Raises GatewayError."""
    if len(values) > 1:
        raise _refused("is given more than once.")
    try:
        return read_demand(values[0])
    except InvalidDemand as error:
        raise _refused(f"takes {error}.") from None


def refuse_unkept(
    demand: DataDemand, order: Sequence[Candidate], channels: Mapping[str, ChannelActor]
) -> None:
    """Raise GatewayError if there are candidates, and none of them keeps the demand."""
    if order and not any(channels[one.channel_id].keeps(demand) for one in order):
        raise unkept(str(demand))


def _refused(why: str) -> GatewayError:
    return GatewayError(INVALID_REQUEST, f"{HEADER} {why}", param=HEADER)
