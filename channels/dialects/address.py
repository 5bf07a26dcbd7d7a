"""The request on the wire of a channel (contract §2: Upstream wire).

What the dialects differ in is data: the path, the header that takes the channel's key, headers of
their own. Of the client's headers none is passed on but those an endpoint names; its key and its
`Idempotency-Key` are nowhere near.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from channels.http.interfaces import UpstreamRequest
from channels.registry import ChannelSpec

_NOTHING: Mapping[str, str] = MappingProxyType({})


def fixed(path: str) -> Callable[[str, bool], str]:
    """A path that is the same for every model, and for streams."""
    return lambda upstream_model, stream: path


def bearer(api_key: str) -> tuple[str, str]:
    return ("Authorization", f"Bearer {api_key}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """How a dialect's requests are addressed.

    `path` takes the upstream's name of the model and whether a stream is asked for; `key` makes the
    header that takes the channel's key. `own` are headers of the dialect, each with its value for a
    request whose client has none to send.
    """

    path: Callable[[str, bool], str]
    key: Callable[[str], tuple[str, str]] = bearer
    own: tuple[tuple[str, str], ...] = ()
    accept: str = "application/json, text/event-stream"

    def request(
        self,
        channel: ChannelSpec,
        body: bytes,
        *,
        upstream_model: str,
        stream: bool,
        own: Mapping[str, str] = _NOTHING,
        extra_headers: Iterable[tuple[str, str]] = (),
    ) -> UpstreamRequest:
        """Address a body to a channel. `own` are the client's values; `extra_headers` go last."""
        told: Iterable[tuple[str, str]] = ()
        if self.own:
            told = [(name, own.get(name, usual)) for name, usual in self.own]
        return UpstreamRequest(
            "POST",
            channel.base_url + self.path(upstream_model, stream),
            (
                self.key(channel.api_key),
                *told,
                ("Content-Type", "application/json"),
                ("Accept", self.accept),
                *extra_headers,
            ),
            body,
        )
