"""What a call needs to know of a dialect: one record each, the same for all of them.

Each dialect's own is `DIALECT` in `dialect.py` of its folder; `table.py` is the table of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import quote

import msgspec
from msgspec import Struct

from channels.authorizers.authorizers import authorizer_of
from channels.dialects.meter import ErrorEvent, PartialUsage, Usage
from channels.errors import InvalidRequest
from channels.families import Family
from channels.http.interfaces import Authorizer, UpstreamRequest
from channels.http.sse import Render
from channels.json import JsonObject, dumps
from channels.registry import (
    ChannelKey,
    ChannelSpec,
    Credentials,
    KeyHeader,
    ModelSpec,
    Pairs,
    bearer,
    credentials_of,
)
from channels.translation.codec import Codec, StreamingUpstream

# The request on the wire of a channel (contract §2: Upstream wire).
#
# What the dialects differ in is data: the path, the header that takes the channel's key, headers of
# their own. Of the client's headers none is passed on but those an endpoint names; its key and its
# `Idempotency-Key` are nowhere near. What is the same for every request of a channel is written
# once.

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
        pin: str | None = None,
    ) -> UpstreamRequest:
        """Address a body to a channel. `own` are the client's values; `extra_headers` go last.

        `pin` is the conversation, which keeps one of the channel's keys.
        """
        of_keys: list[_Written] | None = channel.made.get(self)
        if of_keys is None:
            of_keys = channel.made[self] = [
                self._written(channel, protocol, *one)
                for one in zip(channel.keys, channel.ring.keys, strict=True)
            ]
        written = of_keys[0] if len(of_keys) == 1 else of_keys[channel.ring.next_index(pin)]
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


# A dialect as another provider hosts it: elsewhere, with members moved, in another framing.
#
# A channel states it by `wire` (`ChannelSpec.wire`); the hostings of a dialect are in its record.

HeaderPairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hosting:
    """One way to host a dialect.

    `only` is a text in the names of the models that it is for, `otherwise` hosts all others.
    `without` are members that the path or the host states or does not know, `adds` those that it
    wants, as JSON text; `renames` are its own names of members, `mends` make the JSON of a member
    (by the dialect's name) what it takes.
    `moves` are a client's headers that become members of the body: lists of names. `rewrite` puts
    the body into other words, and raises InvalidRequest for what they cannot express.

    `new_render` reads streams in Amazon's framing; it takes a name for the response and one for the
    model, for hosts that state neither. `whole` makes of a whole response the dialect's own, by the
    model's name; it raises UpstreamMalformed. Without them responses are the dialect's own.
    """

    address: Address
    without: frozenset[str]
    adds: Mapping[str, bytes]
    moves: Mapping[str, str]
    only: str = ""
    otherwise: str = ""
    renames: Mapping[str, str] = field(default_factory=dict)
    mends: Mapping[str, Callable[[bytes], bytes]] = field(default_factory=dict)
    rewrite: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    new_render: Callable[[str, str], Render] | None = None
    whole: Callable[[bytes, str], bytes] | None = None

    def headers(self, headers: HeaderPairs) -> HeaderPairs:
        """Those of the client's headers that stay headers."""
        return tuple(pair for pair in headers if pair[0].lower() not in self.moves)

    def body(self, body: bytes, headers: HeaderPairs) -> bytes:
        """The dialect's body as this host wants it; values stay byte for byte."""
        added = dict(self.adds)
        for name, value in headers:
            member = self.moves.get(name.lower())
            if member is not None:
                names = [one.strip() for one in value.split(",")]
                added[member] = msgspec.json.encode([one for one in names if one])
        if self.rewrite is not None:
            values = msgspec.json.decode(body, type=dict[str, Any])
            values.update((name, msgspec.json.decode(raw)) for name, raw in added.items())
            return dumps(_rewritten(self.rewrite, values))
        members = {
            self.renames.get(name, name): self._mended(name, bytes(raw))
            for name, raw in JsonObject.parse(body).raw.items()
            if name not in self.without and name not in added
        }
        members.update(added)
        pairs = [b"%b:%b" % (msgspec.json.encode(name), raw) for name, raw in members.items()]
        return b"{%b}" % b",".join(pairs)

    def _mended(self, name: str, raw: bytes) -> bytes:
        mend = self.mends.get(name)
        return raw if mend is None else mend(raw)


def _rewritten(
    rewrite: Callable[[dict[str, Any]], dict[str, Any]], values: dict[str, Any]
) -> dict[str, Any]:
    """What a rewriting gives. What it cannot find its way in is nothing that an upstream judges."""
    try:
        return rewrite(values)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise InvalidRequest(
            "The request body is not as its protocol documents it, so that it cannot be said to "
            "the upstream of this model."
        ) from error


def hosting_for(hostings: Mapping[str, Hosting], wire: str, model: str) -> tuple[str, Hosting]:
    """How a model is hosted on a channel of this `wire`, and the name of that way."""
    hosting = hostings[wire]
    if hosting.only not in model.lower():
        wire = hosting.otherwise
        hosting = hostings[wire]
    return wire, hosting


class Hosted(Struct, frozen=True):
    """Which hosting a body is written for, and the client's headers: fit for another process."""

    wire: str
    headers: HeaderPairs


class MeterReading(Protocol):
    """What a meter has read of a response so far: all that its charge rests on.

    `partial_usage` is what was stated while `usage` is None.
    """

    @property
    def usage(self) -> Usage | None: ...

    @property
    def partial_usage(self) -> PartialUsage | None: ...

    @property
    def characters(self) -> int: ...

    @property
    def finished(self) -> bool: ...

    @property
    def error_seen(self) -> object: ...


class Meter(MeterReading, Protocol):
    """Reads one upstream answer as it passes, event by event or whole.

    `read` gives what an event's data hold, for the meter and for a translation both; None where
    they cannot be read. `take` meters it, and `event` does the two in one; False where the event
    is one that only a client that requested usage gets. None of them raises. `body` raises
    UpstreamMalformed. `reads_any_size`: `event` builds little of an event of ever so many values.
    """

    @property
    def reads_any_size(self) -> bool: ...

    @property
    def error_seen(self) -> ErrorEvent | None: ...

    @property
    def finish_reason(self) -> str | None: ...

    @property
    def response_id(self) -> str | None: ...

    @property
    def response_model(self) -> str | None: ...

    @property
    def malformed_events(self) -> int: ...

    def event(self, data: bytes) -> bool: ...

    def read(self, data: bytes) -> Any: ...

    def take(self, read: Any) -> bool: ...

    def body(self, body: bytes) -> None: ...


class ParsedChatRequest(Protocol):
    """What a checked request of any dialect gives the gateway.

    `object` is the body as received; `content_bytes` is the length of the conversation as sent, for
    the pre-charge; `parameters` is what the call log shows of the request. `fault` is what is not
    as documented: an upstream of the same protocol judges it, a translation refuses it.
    """

    @property
    def object(self) -> JsonObject: ...

    @property
    def model(self) -> str: ...

    @property
    def stream(self) -> bool: ...

    @property
    def content_bytes(self) -> int: ...

    @property
    def max_tokens(self) -> int | None: ...

    @property
    def builtin_tools(self) -> tuple[str, ...]: ...

    @property
    def parameters(self) -> Mapping[str, str]: ...

    @property
    def fault(self) -> InvalidRequest | None: ...


def _usual_options(upstream_model: str, channel: ChannelSpec, model: ModelSpec) -> dict[str, Any]:
    return {"upstream_model": upstream_model, "default_max_tokens": model.max_output_tokens}


def model_option(upstream_model: str, channel: ChannelSpec, model: ModelSpec) -> dict[str, Any]:
    """The options of a dialect that edits the model's name in, and nothing else."""
    return {"upstream_model": upstream_model}


class NamedRequest(Protocol):
    """A request whose body names a model."""

    @property
    def object(self) -> JsonObject: ...

    @property
    def model(self) -> str: ...


def renamed_body(request: NamedRequest, *, upstream_model: str) -> bytes:
    """The client's body as one channel wants it; the same bytes when nothing has to change."""
    if request.model == upstream_model:
        return request.object.body
    return request.object.edited(replace={"model": msgspec.json.encode(upstream_model)}, add={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The form on the wire of one family: what `channels/dialects/<dialect>/dialect.py` registers.

    `read_request` takes a body, and by name what the path states besides. Raises InvalidRequest.
    `upstream_body` makes of the request the body for a channel that speaks the same, given by name
    the `options` for that channel: of the upstream's name of the model, the channel, the model.
    `without_body` leaves nothing in a request that grows with its body.
    `without_foreign` takes a body and its outline (`channels/json.py`), and takes out the
    signatures that a translation sealed; None where there can be none.
    `hostings` are other providers' ways to host it, by the `wire` of a channel.
    """

    family: Family
    address: Address
    read_request: Callable[..., Any]
    upstream_body: Callable[..., bytes]
    without_body: Callable[[Any], Any]
    options: Callable[[str, ChannelSpec, ModelSpec], dict[str, Any]] = _usual_options
    without_foreign: Callable[[bytes, bytes], bytes] | None = None

    hostings: Mapping[str, Hosting] = field(default_factory=dict)

    @property
    def protocol(self) -> str:
        return self.family.protocol

    def passthrough_body(
        self, request: Any, options: Mapping[str, Any], hosted: Hosted | None = None
    ) -> bytes:
        """The body of a checked request for a channel that speaks the client's protocol."""
        written = self.upstream_body(request, **options)
        if self.without_foreign is not None:
            written = self.without_foreign(written, request.object.outline)
        if hosted is None:
            return written
        return self.hostings[hosted.wire].body(written, hosted.headers)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counting:
    """How a dialect counts the input tokens of a request (`counting.py`).

    `address` is an upstream's endpoint for it, `member` where the response has the count, beside
    `rest`. `needs`: members of which a request has one; `is_in_path`: the path names the model.
    The others weigh the estimate: `a_text` for what a text would be, and tokens for each turn,
    call, image and tool, and for there being `any_tools`.
    """

    address: Address
    member: str
    rest: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    is_in_path: bool = False
    a_text: float = 1.0
    a_turn: int = 4
    a_call: int = 8
    an_image: int
    a_tool: int = 8
    any_tools: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDialect(Dialect):
    """One chat dialect.

    `has_terminator`: a stream ends with an event of its own, so reading stops once the meter is
    `finished`. Without one it is read until the upstream ends it, and was cut unless `finished`.
    `ends` is for a stream that stops within its last event: whether the data so far, though no
    blank line follows, are an event that counts.

    `upstream` is what a translation to it needs, `codec` what a translation from it needs as well;
    None where there is none. `closing_failure` closes a failed stream with an error of the
    gateway's, whose message it takes, and the client's terminator.
    `header_prefix` begins the names of its provider's headers, of which those of clients go to its
    channels. `needs_max_tokens`: a request must name a maximum. `takes_max_tokens_param`: upstreams
    differ in the name they have for it (`ChannelSpec.max_tokens_param`). `takes_is_here`: its codec
    may find that a request is too long a work for the event loop (`TakesLong`). `marks_cache`: its
    upstreams keep what is marked alone. `counting`: None where the protocol has no endpoint for it.
    """

    new_meter: Callable[[], Meter]
    has_terminator: bool
    ends: Callable[[bytes], bool]
    upstream: StreamingUpstream | None = None
    codec: Codec | None = None
    closing_failure: Callable[[str], bytes] | None = None
    header_prefix: str = ""
    needs_max_tokens: bool = False
    takes_max_tokens_param: bool = False
    takes_is_here: bool = False
    marks_cache: bool = False
    counting: Counting | None = None
