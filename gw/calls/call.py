"""One call as the use-case sees it: what was asked, and the client's side of the connection.

Nothing here knows HTTP, so a whole call runs in a test without a socket.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from actors.wallet.messages import CallFacts
from channels.registry import ModelSpec
from gw.calls.framing import Framing, SseFraming
from gw.calls.plan import ConversationRequest
from metrics.spans import CallSpan


class ClientGone(Exception):
    """The client closed its connection."""


class Client(Protocol):
    """Who makes the call, as far as its money is concerned."""

    @property
    def client_gone(self) -> bool:
        """Has the client closed its connection?"""

    def owns_row(self) -> None:
        """From here on the call writes its own row, however it ends."""


class ResponseWriter(Client, Protocol):
    """The client's side of the call."""

    @property
    def sends_at_once(self) -> bool:
        """Whether what is written of a stream goes out; else a stream that fails delivers nothing,
        and costs nothing."""

    def forget_request(self) -> None:
        """Let go of the request's bytes: no other channel is asked any more."""

    def begin(
        self, content_type: str, headers: Mapping[str, str], *, http_status: int = 200
    ) -> None:
        """A response of this type follows. Nothing is sent yet."""

    def write(self, block: bytes) -> Future[None] | None:
        """Send some events of a stream, headers first.

        A client that does not keep up gives a future, which is done when it does. That one raises
        ClientGone, and so does this, once its connection is closed.
        """

    def finish(self, block: bytes) -> None:
        """Send the last events, if any, and end the response."""

    def send(self, body: bytes) -> None:
        """Send a whole response."""


class PaidCall(Protocol):
    """A call that has passed every check except money and channels, whatever it is billed by."""

    @property
    def facts(self) -> CallFacts: ...

    @property
    def model(self) -> ModelSpec: ...

    @property
    def cap_nano_usd(self) -> int | None: ...

    @property
    def span(self) -> CallSpan: ...

    @property
    def started(self) -> float:
        """Monotonic seconds."""

    @property
    def detail(self) -> dict[str, Any]:
        """What its row keeps for the receipt (`receipt.py`); filled as the call goes on."""


class ChatCall(Struct, frozen=True, kw_only=True):
    """A chat call, in whichever protocol."""

    facts: CallFacts
    model: ModelSpec
    cap_nano_usd: int | None
    is_stream: bool
    forwards_usage: bool  # the client asked for the usage chunk
    content_bytes: int  # of `messages` as sent, for the pre-charge
    body_bytes: int  # of all that was sent
    max_tokens: int | None
    pin: str | None
    span: CallSpan
    request: ConversationRequest
    started: float  # monotonic seconds
    tools: tuple[str, ...] = ()  # built-in ones that were asked for
    tools_protocol: str | None = None  # what these run over, where it is not the client's
    framing: Framing = msgspec.field(default_factory=SseFraming)
    translations: tuple[str, ...] = ()  # protocols this one may be translated to
    detail: dict[str, Any] = msgspec.field(default_factory=dict)
