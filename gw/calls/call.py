"""One call of any kind, and its client: what use-cases of `gw/calls` are given."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from actors.routing import Candidate
from actors.wallet.messages import CallFacts, NewJob
from channels.data_promise import DataDemand
from channels.registry import ModelSpec
from gw.budgets.node import Spender
from gw.idempotency.claim import IdempotencyClaim
from metrics.spans import CallSpan


class ClientGone(Exception):
    """The client closed its connection."""


class Client(Protocol):
    """The client of a call, as far as settlement uses it."""

    @property
    def client_gone(self) -> bool:
        """Whether the client has closed its connection."""

    def hold_decided(self) -> None:
        """The call has its hold, or will have none: from now on it writes its row itself."""

    def keep_header(self, name: str, value: str) -> None:
        """Set a header of the response, an error's too."""


class ResponseWriter(Client, Protocol):
    """The client's side of the call."""

    @property
    def sends_at_once(self) -> bool:
        """Whether blocks of a stream are sent at once; otherwise a failed stream delivers nothing
        and costs nothing."""

    def forget_request(self) -> None:
        """Release the request's bytes: no other channel will be tried."""

    def begin(
        self, content_type: str, headers: Mapping[str, str], *, http_status: int = 200
    ) -> None:
        """Set type and headers of the response. Nothing is sent yet."""

    def write(self, block: bytes) -> Future[None] | None:
        """Send events of a stream, headers first.

        Returns a future to wait for when the client reads slowly, else None. Both raise ClientGone
        once the connection is closed.
        """

    def finish(self, block: bytes) -> None:
        """Send the last events, if any, and end the response."""

    def break_off(self, block: bytes) -> None:
        """Send the last events, if any, and end the response as an incomplete one."""

    def send(self, body: bytes) -> None:
        """Send a whole response."""


class Call(Struct, frozen=True):
    """A call that has passed every check except money and channels.

    `spender`: whose budgets it counts for. `demand`: what its channel must have promised for its
    data. `detail` collects the receipt of its row. `idempotency`
    is set when the request has an idempotency key. `cheaper` is the advice in the error of a client
    without enough balance.
    """

    facts: CallFacts
    model: ModelSpec
    cap_nano_usd: int | None
    spender: Spender
    demand: DataDemand | None
    span: CallSpan
    started: float  # monotonic seconds
    cheaper: str
    idempotency: IdempotencyClaim | None = None
    detail: dict[str, Any] = msgspec.field(default_factory=dict)
    job: NewJob | None = None  # the job begun by the call

    def sold_as(self, candidate: Candidate) -> ModelSpec:
        """Return the model that a channel would serve: its own, or the one of its chain."""
        return self.model.step(candidate.step) if candidate.step else self.model
