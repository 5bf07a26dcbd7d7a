"""A checked request of any protocol. Nothing here depends on HTTP.

So a whole call runs in a test without a socket.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from actors.routing import Candidate
from channels.dialects.address import Address
from channels.dialects.hosting import Hosted
from channels.dialects.table import DIALECTS
from channels.errors import TakesLong
from channels.http.interfaces import UpstreamRequest
from channels.json.weight import READ_VALUES_MAX
from channels.offload.jobs import passthrough_job
from channels.offload.pool import Helpers
from channels.offload.process import Job
from channels.registry import ChannelSpec
from gw.calls.offloading import no_helpers, offloaded


class ClientRequest(Struct, eq=False):
    """One checked request of any protocol; `weight`: the upper bound of its number of values.

    `path`: the values parsed from the request's path.
    """

    parsed: Any  # by the dialect
    protocol: str
    body: bytes
    weight: int = 0
    helpers: Callable[[], Helpers] = no_helpers
    path: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.protocol} {len(self.body)} bytes>"

    def forget(self) -> None:
        """Release the bytes, once no other channel will be tried."""
        self.body = b""
        self.parsed.object.forget()

    async def offloaded_body(
        self, options: Mapping[str, Any], hosted: Hosted | None = None
    ) -> bytes:
        """Return the passthrough body (`Dialect`) of a heavy request. Raises InvalidRequest."""
        path = self.path or {}
        _, written = await self.offloaded(passthrough_job, self.protocol, path, options, hosted)
        return self.body if written is None else written

    async def run_job(self, job: Job, *arguments: Any, values_max: int) -> tuple[Any, bytes | None]:
        """Run a job on the body in this process, or offload it above `values_max` or when slow."""
        if self.weight <= values_max:
            try:
                return job(self.body, *arguments, is_here=True)
            except TakesLong:
                pass
        return await self.offloaded(job, *arguments)

    async def offloaded(self, job: Job, *arguments: Any) -> tuple[Any, bytes | None]:
        """Run a job on the body in a helper process."""
        return await offloaded(self.helpers(), job, self.body, *arguments)


class PieceRequest(ClientRequest, kw_only=True):
    """A checked media request; `address` is its endpoint's, if it is not the dialect's main one."""

    address: Address | None = None

    async def upstream_request(self, candidate: Candidate, channel: ChannelSpec) -> UpstreamRequest:
        """Return the request for this channel."""
        address = self.address or DIALECTS[self.protocol].address
        return address.request(
            channel,
            await self.body_for(candidate),
            protocol=candidate.protocol,
            upstream_model=candidate.upstream_model,
            stream=False,
        )

    async def body_for(self, candidate: Candidate) -> bytes:
        """Return the body for a channel."""
        options = {"upstream_model": candidate.upstream_model}
        if self.weight > READ_VALUES_MAX:
            return await self.offloaded_body(options)
        return DIALECTS[self.protocol].passthrough_body(self.parsed, options)


class FormUpload(PieceRequest, kw_only=True):
    """A checked form with files; `address` is its endpoint's."""

    address: Address

    async def upstream_request(self, candidate: Candidate, channel: ChannelSpec) -> UpstreamRequest:
        """Return the request for this channel."""
        model = candidate.upstream_model
        content_type, body = self.parsed.body_for(self.body, model)
        request = self.address.request(
            channel, body, protocol=self.protocol, upstream_model=model, stream=False
        )
        stated = ("Content-Type", content_type)
        others = (one for one in request.headers if one[0] != "Content-Type")
        return replace(request, headers=(*others, stated))
