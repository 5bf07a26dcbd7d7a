"""The request on the wire of a channel (reference 10.6).

Dialects differ in data: the path, the header for the channel's key, headers of their own. Of the
client's headers only those that an endpoint names are passed on; its key and its
`Idempotency-Key` never are. What is the same for all requests of a channel is encoded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from msgspec import Struct

from channels.authorizers.authorizers import authorizer_of
from channels.credentials import Credentials, KeyHeader, Pairs, bearer, credentials_of
from channels.http.interfaces import Authorizer, UpstreamRequest
from channels.http.request_writer import BodyPieces
from channels.key_ring import ChannelKey
from channels.registry import ChannelSpec

# Placeholder for the upstream's name of the model in a path.
MODEL = "{model}"


class _RequestHead(Struct, frozen=True):
    """The common part of all requests of one channel, key and dialect.

    The URLs may contain MODEL. `own` and `shared` exclude what the channel's headers replace.
    """

    url: str
    stream_url: str
    credentials: Credentials
    own: Pairs
    shared: Pairs
    headers: Pairs  # of a request without headers of its own
    names_model: bool
    key: ChannelKey
    authorizer: Authorizer | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Address:
    """How a dialect's requests are addressed.

    `path` may contain MODEL; `action` and `stream_action` are appended, on every host. `key` makes
    the header for the channel's key. `own` are headers of the dialect, each with its default for a
    client that does not send one. `models_path` lists the upstream's models. `model_keeps` are
    characters of a model's name that are not quoted in the path.
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
        body: bytes | BodyPieces,
        *,
        protocol: str,
        upstream_model: str,
        stream: bool,
        own: Mapping[str, str] | None = None,
        extra_headers: Iterable[tuple[str, str]] = (),
        pin: str | None = None,
    ) -> UpstreamRequest:
        """Address a body to a channel. `own` are the client's values; `extra_headers` are last.

        `pin` is the conversation, which keeps one of the channel's keys.
        """
        of_keys: list[_RequestHead] | None = channel.derived.get(self)
        if of_keys is None:
            of_keys = channel.derived[self] = [
                self._written(channel, protocol, *one)
                for one in zip(channel.keys, channel.ring.keys, strict=True)
            ]
        written = of_keys[channel.ring.next_index(pin) if channel.more_keys else 0]
        url = written.stream_url if stream else written.url
        if written.names_model:
            url = url.replace(MODEL, quote(upstream_model, safe=self.model_keeps))
        headers = written.headers
        if own or extra_headers:
            stated = own or {}
            values = tuple((name, stated.get(name, usual)) for name, usual in written.own)
            extra = written.credentials.others(tuple(extra_headers))
            headers = (*written.credentials.key_headers, *values, *written.shared, *extra)
        return UpstreamRequest(
            "POST", url, headers, body, channel.transport, written.key, written.authorizer
        )

    def _written(
        self, channel: ChannelSpec, protocol: str, api_key: str, key: ChannelKey
    ) -> _RequestHead:
        credentials = credentials_of(channel, self.key, api_key)
        own = credentials.others(self.own)
        shared = (("Content-Type", "application/json"), ("Accept", self.accept), *credentials.fixed)
        base = self.base(channel, protocol)
        return _RequestHead(
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
        """Return the URL of this protocol on a channel, without action and query."""
        path = channel.paths.get(protocol)
        if path is None:
            return channel.base_url + self.path
        scheme, _, rest = channel.base_url.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}{path}"
