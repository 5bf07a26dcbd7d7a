"""The request on the wire of a channel (contract §2: Upstream wire).

What the dialects differ in is data: the path, the header that takes the channel's key, headers of
their own. Of the client's headers none is passed on but those an endpoint names; its key and its
`Idempotency-Key` are nowhere near. What is the same for every request of a channel is written once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import quote

from msgspec import Struct

from channels.authorizers.table import authorizer_of
from channels.credentials import Credentials, KeyHeader, Pairs, bearer, credentials_of
from channels.http.interfaces import Authorizer, UpstreamRequest
from channels.key_ring import ChannelKey
from channels.registry import ChannelSpec

# Stands for the upstream's name of the model in a path.
MODEL = "{model}"

_NOTHING: Mapping[str, str] = MappingProxyType({})


class _Written(Struct, frozen=True):
    """What all requests of one channel, key and dialect have in common.

    The URLs may have MODEL in them. `own` and `shared` lack what the channel's headers replace.
    """

    url: str
    stream_url: str
    credentials: Credentials
    own: Pairs
    shared: Pairs
    headers: Pairs  # of a request that brings none of its own
    names_model: bool
    key: ChannelKey
    authorizer: Authorizer | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Address:
    """How a dialect's requests are addressed.

    `path` may have MODEL in it; `action` and `stream_action` follow it, on every host. `key` makes
    the header that takes the channel's key. `own` are headers of the dialect, each with its value
    for a request whose client has none to send. `models_path` lists the upstream's models.
    `model_keeps` are characters of a model's name that stand in the path as they are.
    """

    path: str
    action: str = ""
    stream_action: str = ""
    key: KeyHeader = bearer
    own: Pairs = ()
    accept: str = "application/json, text/event-stream"
    models_path: str = "/v1/models"
    model_keeps: str = ""

    def request(
        self,
        channel: ChannelSpec,
        body: bytes,
        *,
        protocol: str,
        upstream_model: str,
        stream: bool,
        own: Mapping[str, str] = _NOTHING,
        extra_headers: Iterable[tuple[str, str]] = (),
    ) -> UpstreamRequest:
        """Address a body to a channel. `own` are the client's values; `extra_headers` go last."""
        of_keys: list[_Written] | None = channel.made.get(self)
        if of_keys is None:
            of_keys = channel.made[self] = [
                self._written(channel, protocol, *one)
                for one in zip(channel.keys, channel.ring.keys, strict=True)
            ]
        written = of_keys[0] if len(of_keys) == 1 else of_keys[channel.ring.next_index()]
        url = written.stream_url if stream else written.url
        if written.names_model:
            url = url.replace(MODEL, quote(upstream_model, safe=self.model_keeps))
        headers = written.headers
        if own or extra_headers:
            values = tuple((name, own.get(name, usual)) for name, usual in written.own)
            extra = written.credentials.others(tuple(extra_headers))
            headers = (*written.credentials.key_headers, *values, *written.shared, *extra)
        return UpstreamRequest(
            "POST", url, headers, body, channel.transport, written.key, written.authorizer
        )

    def _written(
        self, channel: ChannelSpec, protocol: str, api_key: str, key: ChannelKey
    ) -> _Written:
        credentials = credentials_of(channel, self.key, api_key)
        own = credentials.others(self.own)
        shared = (("Content-Type", "application/json"), ("Accept", self.accept), *credentials.fixed)
        base = self.base(channel, protocol)
        return _Written(
            credentials.url(base + self.action),
            credentials.url(base + self.stream_action),
            credentials,
            own,
            shared,
            (*credentials.key_headers, *own, *shared),
            MODEL in base,
            key,
            authorizer_of(channel),
        )

    def base(self, channel: ChannelSpec, protocol: str) -> str:
        """The URL of this protocol on a channel, without action and query."""
        path = channel.paths.get(protocol)
        if path is None:
            return channel.base_url + self.path
        scheme, _, rest = channel.base_url.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}{path}"
