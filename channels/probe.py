"""One cheap request to a channel that shows whether address and key are good: its list of models.

It costs nothing with any provider that has one. Any other response shows at least that a
server is there; its text is shown to the operator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from channels.authorizers.authorizers import authorizer_of
from channels.dialects.dialect import Address
from channels.dialects.error_body import error_members
from channels.dialects.table import DIALECTS
from channels.errors import UpstreamError
from channels.http.interfaces import UpstreamRequest, Wire
from channels.kinds import KINDS
from channels.redaction import Redactor
from channels.registry import ChannelSpec, bearer, credentials_of

# The longest list known, with a description of each model, takes about a megabyte.
LIST_BYTES_MAX = 8 * 1024 * 1024
# The member that holds the list, and that of a model which names it.
_LISTS = (
    ("data", "id"),
    ("models", "name"),
    ("publisherModels", "name"),
    ("modelSummaries", "modelId"),
)
_BEARER = Address(path="", key=bearer)


class Probe(Struct, frozen=True):
    """The response. `status` is None where there was none; `models` where it is no list of them.

    `message` is the upstream's or what went wrong, without keys and hosts of any channel.
    """

    status: int | None
    message: str
    models: tuple[str, ...] | None = None

    @property
    def is_good(self) -> bool:
        """Whether the key was taken."""
        return self.status is not None and 200 <= self.status < 300


async def probe(
    channel: ChannelSpec, wire: Wire, redactor: Redactor, *, timeout_seconds: float
) -> Probe:
    """Request the list of models. Never raises for what the upstream does."""
    try:
        async with asyncio.timeout(timeout_seconds):
            response = await wire.open(models_request(channel))
            try:
                body = await response.read(LIST_BYTES_MAX)
            finally:
                response.close()
    except TimeoutError:
        return Probe(None, f"no answer in {timeout_seconds:g} seconds")
    except UpstreamError as error:
        return Probe(None, redactor.text(f"{error} {error.detail}"))
    models = _models(body) if 200 <= response.status < 300 else None
    message = _message(response.status, error_members(body).message, models)
    return Probe(response.status, redactor.text(message), models)


def models_request(channel: ChannelSpec) -> UpstreamRequest:
    """The request, in the form of the channel's first protocol."""
    spoken = (one.address for protocol, one in DIALECTS.items() if protocol in channel.protocols)
    address = next(spoken, _BEARER)
    kind = KINDS.get(channel.kind)
    path = kind.models_path if kind is not None else address.models_path
    base_url = channel.base_url if kind is None else channel.base_url.replace(*kind.models_host)
    credentials = credentials_of(channel, address.key, channel.api_key)
    headers = (
        *credentials.key_headers,
        *credentials.others(address.own),
        ("Accept", "application/json"),
        *credentials.fixed,
    )
    url = credentials.url(base_url + path)
    return UpstreamRequest(
        "GET", url, headers, b"", channel.transport, authorizer=authorizer_of(channel)
    )


def _message(status: int, upstream: str | None, models: tuple[str, ...] | None) -> str:
    if models is not None:
        return f"{len(models)} models"
    if status in (404, 405):
        return "something answers there, and has no list of models; the key was not tried"
    return upstream or "nothing that says why"


def _models(body: bytes) -> tuple[str, ...] | None:
    """The names in a list, in one of the forms that there are."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(value, list):  # of Together, without anything around it
        return tuple(_names(value, "id"))
    if not isinstance(value, dict):
        return None
    for members, name in _LISTS:
        if isinstance(listed := value.get(members), list):
            return tuple(_names(listed, name))
    return None


def _names(listed: list[Any], name: str) -> Iterable[str]:
    for one in listed:
        if isinstance(one, dict) and isinstance(found := one.get(name), str):
            yield found.removeprefix("publishers/google/").removeprefix("models/")
