"""The test of a channel's address and key by one cheap request: for its list of models.

It is free at every provider that has one. Any other response proves at least that a server
responds; its text is shown to the operator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from actors.store.session import Session
from channels.authorizers.authorizers import authorizer_of
from channels.credentials import bearer, credentials_of
from channels.dialects.address import Address
from channels.dialects.error_body import error_members
from channels.dialects.table import DIALECTS
from channels.errors import UpstreamError
from channels.http.interfaces import UpstreamClient, UpstreamRequest
from channels.kinds import KINDS
from channels.redaction import Redactor
from channels.registry import ChannelSpec, Registry
from gw.admin import audit
from gw.admin.audit import Actor

# The longest known list, with a description of each model, has about a megabyte.
LIST_BYTES_MAX = 8 * 1024 * 1024
# The member that holds the list, and the member with a model's name.
_LISTS = (
    ("data", "id"),
    ("models", "name"),
    ("publisherModels", "name"),
    ("modelSummaries", "modelId"),
)
_BEARER = Address(path="", key=bearer)


class Probe(Struct, frozen=True):
    """The result. `status` is None without a response; `models` if it is no list of models.

    `message` is the upstream's or the failure, without keys and hosts of any channel.
    """

    status: int | None
    message: str
    models: tuple[str, ...] | None = None

    @property
    def is_good(self) -> bool:
        """Whether the key was accepted."""
        return self.status is not None and 200 <= self.status < 300


async def probe(
    channel: ChannelSpec, http: UpstreamClient, redactor: Redactor, *, timeout_seconds: float
) -> Probe:
    """Request the list of models. No behaviour of the upstream raises."""
    try:
        async with asyncio.timeout(timeout_seconds):
            response = await http.open(models_request(channel))
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
    """Return the request, in the form of the channel's first protocol."""
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
    """Return the names in a list of any known form, or None."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(value, list):  # of Together, a bare list
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


PROBE_SECONDS = 20.0


class ChannelTest(Struct, frozen=True):
    """A channel's response to a request for its list of models.

    `models`: their number; `not_listed`: configured models missing from it.
    """

    channel: str
    ok: bool
    status: int | None
    message: str
    models: int | None
    not_listed: list[str]


async def probe_models(
    spec: ChannelSpec, registry: Registry, http: UpstreamClient, redactor: Redactor
) -> ChannelTest:
    """Request a channel's list of models. No behaviour of the upstream raises."""
    found = await probe(spec, http, redactor, timeout_seconds=PROBE_SECONDS)
    listed = set(found.models or ())
    missing = [name for name in _asked_for(registry, spec.id) if name not in listed]
    return ChannelTest(
        channel=spec.id,
        ok=found.is_good,
        status=found.status,
        message=found.message,
        models=None if found.models is None else len(found.models),
        not_listed=missing if found.models is not None else [],
    )


async def note_test(session: Session, actor: Actor, found: ChannelTest) -> None:
    """Record a test in the audit trail."""
    details = {"ok": found.ok, "status": found.status}
    await audit.note(session, actor, "channel.test", found.channel, details=details)


def _asked_for(registry: Registry, channel_id: str) -> list[str]:
    """Return the upstream names of a channel's models."""
    return [
        bound.upstream_model or model.id
        for model in registry.models.values()
        for bound in model.bindings
        if bound.channel_id == channel_id
    ]
