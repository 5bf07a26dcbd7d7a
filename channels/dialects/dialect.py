"""The record by which a call uses a dialect, of the same form for all dialects.

Each dialect has its own as `DIALECT` in `dialect.py` of its folder; `table.py` collects them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
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
from channels.http.transport import BodyPieces
from channels.json.json_object import JsonObject
from channels.json.lenient import dumps, text_of
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
from channels.translation.codec import Codec

# The request on the wire of a channel (contract §2: Upstream wire).
#
# Dialects differ in data: the path, the header for the channel's key, headers of their own. Of the
# client's headers only those that an endpoint names are passed on; its key and its
# `Idempotency-Key` never are. What is the same for all requests of a channel is encoded once.

# Placeholder for the upstream's name of the model in a path.
MODEL = "{model}"


class _Written(Struct, frozen=True):
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
        of_keys: list[_Written] | None = channel.derived.get(self)
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
        """Return the URL of this protocol on a channel, without action and query."""
        path = channel.paths.get(protocol)
        if path is None:
            return channel.base_url + self.path
        scheme, _, rest = channel.base_url.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}{path}"


# A dialect as another provider hosts it: another address, other members, another framing.
#
# A channel selects it by `wire` (`ChannelSpec.wire`); a dialect's record has its hostings.

HeaderPairs = tuple[tuple[str, str], ...]


class TierHeader(Struct, frozen=True):
    """The header in which a host takes a service tier, and states the one that it served.

    `words` are its names by those of the dialect's `member`; without a name no header is sent.
    `stated` writes a served tier into a whole response.
    """

    name: str
    member: str
    words: Mapping[str, str | None]
    stated: Callable[[bytes, str], bytes]

    def pairs(self, parameters: Mapping[str, str]) -> HeaderPairs:
        """Return the header for a request with these parameters."""
        word = self.words.get(parameters.get(self.member, ""))
        return () if word is None else ((self.name, word),)

    def replaces(self, member: str, raw: bytes) -> bool:
        """Whether the header states a member of the body."""
        return member == self.member and text_of(msgspec.json.decode(raw)) in self.words


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hosting:
    """One way to host a dialect.

    `only` is a text in the names of the models that it supports, `otherwise` hosts all others.
    `without` are members that the path or the host states or does not know, `adds` those that it
    requires, as JSON text; `renames` are its own names of members, `mends` convert the JSON of a
    member (by the dialect's name). `moves` maps a client's headers to members of the body, which
    are lists of names. `rewrite` converts the whole body, and raises InvalidRequest for what the
    host cannot express.

    `new_render` decodes streams in Amazon's framing; it takes a name for the response and one for
    the model, for hosts that state neither, and the served tier. `whole` converts a whole response
    to the dialect's own, by the model's name; it raises UpstreamMalformed. Without them responses
    are the dialect's own.
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
    new_render: Callable[[str, str, str], Render] | None = None
    whole: Callable[[bytes, str], bytes] | None = None
    tier: TierHeader | None = None

    @property
    def takes_tiers(self) -> bool:
        """Whether it takes tiers that the dialect has not, in its header or its rewritten body."""
        return self.tier is not None or self.rewrite is not None

    def headers(self, headers: HeaderPairs, parameters: Mapping[str, str]) -> HeaderPairs:
        """Return the client's headers that stay headers, and its tier if that is one here."""
        kept = tuple(pair for pair in headers if pair[0].lower() not in self.moves)
        return kept if self.tier is None else kept + self.tier.pairs(parameters)

    def body(self, body: bytes, headers: HeaderPairs) -> bytes:
        """Return the dialect's body for this host; values are unchanged byte for byte."""
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
            if self.tier is None or not self.tier.replaces(name, bytes(raw))
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
    """Return the converted body. A body that cannot be converted is refused."""
    try:
        return rewrite(values)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise InvalidRequest(
            "The request body is not as its protocol documents it, so that it cannot be said to "
            "the upstream of this model."
        ) from error


def hosting_for(hostings: Mapping[str, Hosting], wire: str, model: str) -> tuple[str, Hosting]:
    """Return the name and the hosting of a model on a channel of this `wire`."""
    hosting = hostings[wire]
    if hosting.only not in model.lower():
        wire = hosting.otherwise
        hosting = hostings[wire]
    return wire, hosting


class Hosted(Struct, frozen=True):
    """The hosting of a body, and the client's headers; can be sent to another process."""

    wire: str
    headers: HeaderPairs


class MeterReading(Protocol):
    """The state of a meter that determines the charge.

    `partial_usage` is what was stated while `usage` is None, `unstated_characters` how many of the
    characters followed the usage.
    """

    @property
    def usage(self) -> Usage | None: ...

    @property
    def partial_usage(self) -> PartialUsage | None: ...

    @property
    def characters(self) -> int: ...

    @property
    def unstated_characters(self) -> int: ...

    @property
    def finished(self) -> bool: ...

    @property
    def error_seen(self) -> object: ...


class Meter(MeterReading, Protocol):
    """Meters one upstream response as it is passed on, event by event or whole.

    `read` decodes an event's data, for both the meter and a translation; None if it is unreadable,
    or undocumented and heavy. `take` meters it; False if only a client that requested usage gets
    the event. Neither raises. `body` raises UpstreamMalformed. `reads_any_size`: `read` builds few
    objects from an event of any number of values. `begins_at_once`: any event begins a stream, not
    only one with a choice. `has_answer`: the response can be used. `end_of_body`: the body of a
    stream has ended as its head promised, which may be the end of the response.
    """

    @property
    def reads_any_size(self) -> bool: ...

    @property
    def begins_at_once(self) -> bool: ...

    @property
    def has_answer(self) -> bool: ...

    def end_of_body(self) -> None: ...

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

    def read(self, data: bytes) -> Any: ...

    def take(self, read: Any, /) -> bool: ...

    def body(self, body: bytes) -> None: ...


class ParsedChatRequest(Protocol):
    """A checked request of any dialect.

    `object` is the body as received; `content_bytes` is the length of the conversation as sent, for
    the pre-charge; `parameters` are those for the call log. `fault` is a deviation from the
    documentation: an upstream of the same protocol judges it, a translation refuses it.
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
    """Return the options of a dialect that only replaces the model's name."""
    return {"upstream_model": upstream_model}


class NamedRequest(Protocol):
    """A request whose body names a model."""

    @property
    def object(self) -> JsonObject: ...

    @property
    def model(self) -> str: ...


def renamed_body(request: NamedRequest, *, upstream_model: str) -> bytes:
    """Return the body with the upstream's model name; the same object if that is equal."""
    if request.model == upstream_model:
        return request.object.body
    return request.object.edited(replace={"model": msgspec.json.encode(upstream_model)}, add={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The form of one family on the wire, as `channels/dialects/<dialect>/dialect.py` has it.

    `read_request` takes a body, and by name the facts in the path. Raises InvalidRequest.
    `upstream_body` makes the body for a channel of the same protocol, with the `options` for that
    channel by name: from the upstream's model name, the channel, the model. `without_body` removes
    what grows with the body from a request. `without_foreign` takes a body and its outline
    (`json/outline.py`), and removes signatures that a translation sealed; None if there can be
    none. `hostings` are other providers' ways to host it, by the `wire` of a channel.
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
        """Return the body of a checked request for a channel of the client's protocol."""
        written = self.upstream_body(request, **options)
        if self.without_foreign is not None:
            written = self.without_foreign(written, request.object.outline)
        if hosted is None:
            return written
        return self.hostings[hosted.wire].body(written, hosted.headers)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counting:
    """How a dialect counts the input tokens of a request (`counting.py`).

    `address` is the upstream's endpoint, `member` the count in the response, `rest` the other
    members. `needs`: members of which a request has one; `is_in_path`: the path names the model.
    The others weigh the estimate: `a_text` is a factor for text; tokens for each turn, call, image
    and tool, and `any_tools` once if there are tools.
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

    `has_terminator`: a stream ends with its own event, so reading stops once the meter is
    `finished`. Otherwise it is read until the upstream ends it, and was cut unless `finished`.
    `ends`, for a stream that stops within its last event: whether the data is a final event despite
    the missing blank line.

    `codec` is for translations from it and to it; None without these. `closing_failure` closes a
    failed stream with an error of the gateway, with this message, and the client's terminator.
    `header_prefix` is the prefix of its provider's headers, of which a client's are sent to its
    channels. `needs_max_tokens`: a request must have a maximum.
    `takes_max_tokens_param`: upstreams differ in its name (`ChannelSpec.max_tokens_param`);
    `has_system_anywhere`: not all of them take instructions within a conversation
    (`has_system_first`); `takes_cache_key`: some take the conversation's name for their cache.
    `takes_is_here`: its codec may refuse a request that takes too long for the event loop
    (`TakesLong`). `marks_cache`: its upstreams cache only what is marked. `counting`: None if the
    protocol has no endpoint for it.
    """

    new_meter: Callable[[], Meter]
    has_terminator: bool
    ends: Callable[[bytes], bool]
    codec: Codec | None = None
    closing_failure: Callable[[str], bytes] | None = None
    header_prefix: str = ""
    needs_max_tokens: bool = False
    takes_max_tokens_param: bool = False
    has_system_anywhere: bool = False
    takes_cache_key: bool = False
    takes_is_here: bool = False
    marks_cache: bool = False
    counting: Counting | None = None
