"""The upstreams and models of the configuration: immutable facts.

Nothing here changes in use; a reload makes a new Registry. `gw/config` reads and checks the facts,
`families.py` lists protocols, prices and endpoint types, `actors` tracks load and health of
channels, and `actors/wallet/pricing.py` computes costs from prices.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias, get_args
from urllib.parse import urlencode

from msgspec import Struct

from channels.authorizers.specs import AuthorizerSpec
from channels.errors import ErrorMembers
from channels.families import MODEL_TYPES
from channels.http.transport import Transport
from channels.kinds import KINDS
from channels.prices import PriceSpec

# The keys of one channel: a conversation keeps one of them, other requests rotate; a key that the
# upstream refuses is set aside for a while, which moves only its own conversations.
#
# Whether an upstream refuses the key (the channel's account) or the request:
#
#     401, 402                                        the key
#     4xx whose code, type or reason is KEY_WORDS     the key
#     4xx with a text of the kind's `key_refusals`    the key
#     403 with a word of REQUEST_WORDS                the request
#     403 with a text of its `request_refusals`       the request
#     403 otherwise                                   the key, aside for a shorter time
#     any other 4xx                                   the request
#
# A key is used again after its time, because its balance may have been topped up, and at once when
# a request with it succeeds; if every key is set aside, the one whose time ends first is used.

KEY_REFUSALS = (401, 402)
FORBIDDEN = 403
ASIDE_SECONDS = 300.0
# After an unknown 403, which may be caused by the client's request.
ASIDE_UNKNOWN_SECONDS = 30.0

# Error types and codes of dialects that refuse the key, whatever the status.
KEY_WORDS = frozenset(
    {
        *("invalid_api_key", "account_deactivated"),  # chat, responses
        *("billing_not_active", "billing_hard_limit_reached"),
        *("authentication_error", "billing_error"),  # messages
        *("UNAUTHENTICATED", "API_KEY_INVALID", "API_KEY_SERVICE_BLOCKED"),  # native-content
        *("BILLING_DISABLED", "CONSUMER_SUSPENDED", "SERVICE_DISABLED"),
    }
)
# Those that refuse the request, although the status is 403.
REQUEST_WORDS = frozenset(
    {
        *("invalid_request_error", "content_filter"),  # chat, responses, messages
        *("content_policy_violation", "moderation_blocked"),
        *("INVALID_ARGUMENT", "FAILED_PRECONDITION"),  # native-content
    }
)


class KnownRefusals(NamedTuple):
    """How a kind of upstream refuses: statuses, each with a text in the message."""

    of_key: Sequence[tuple[int, str]]
    of_request: Sequence[tuple[int, str]]


NO_KNOWN = KnownRefusals((), ())


class ChannelKey:
    """One key of a channel; `number` counts from 1, in the order of the file.

    `seed` depends only on the key, not on the others.
    """

    __slots__ = ("_ring", "aside_until", "number", "seed")

    def __init__(self, ring: KeyRing, number: int, seed: bytes) -> None:
        self._ring = ring
        self.number = number
        self.seed = seed
        self.aside_until = 0.0  # monotonic seconds

    def __repr__(self) -> str:
        return f"<ChannelKey {self.number}>"

    def seconds_aside(self, status: int, error: ErrorMembers) -> float:
        """Return how long an error other than 401 and 402 sets the key aside; 0: not at all.

        It implements the table above.
        """
        known, message = self._ring.known, error.message or ""
        if not 400 <= status < 500:
            return 0.0
        if not KEY_WORDS.isdisjoint(error.words) or _is_any(known.of_key, status, message):
            return ASIDE_SECONDS
        if status != FORBIDDEN or not REQUEST_WORDS.isdisjoint(error.words):
            return 0.0
        return 0.0 if _is_any(known.of_request, status, message) else ASIDE_UNKNOWN_SECONDS

    def refused(self, status: int, seconds: float = ASIDE_SECONDS) -> None:
        """Set the key aside for so long, because the upstream refused it with this status."""
        self._ring.on_refused(self, status, seconds)

    def confirmed(self) -> None:
        """Use the key again: the upstream accepted it."""
        self.aside_until = 0.0


# Called on a refusal: the key's number, the status, and whether it was in use until now.
Listener = Callable[[int, int, bool], None]


class KeyRing:
    """The keys of one channel. Mutable, and specific to a process and configuration."""

    def __init__(
        self,
        keys: Sequence[str],
        *,
        known: KnownRefusals = NO_KNOWN,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.known = known
        self._monotonic = monotonic
        self._last = -1
        self.listener: Listener | None = None
        self.keys: Sequence[ChannelKey] = [
            ChannelKey(self, number, blake2b(key.encode(), digest_size=16).digest())
            for number, key in enumerate(keys, start=1)
        ]

    def __repr__(self) -> str:
        return f"<KeyRing {len(self.keys)} keys, {self.aside} aside>"

    @property
    def aside(self) -> int:
        """The number of keys set aside."""
        now = self._monotonic()
        return sum(key.aside_until > now for key in self.keys)

    @property
    def is_aside(self) -> bool:
        """Whether all keys are set aside, so that the channel is tried after all others."""
        for key in self.keys:
            if not key.aside_until or key.aside_until <= self._monotonic():
                return False
        return True

    def next_index(self, pin: str | None = None) -> int:
        """Return the index of the next request's key.

        For a conversation it is chosen by rendezvous hashing of its pin with each key in use: a key
        that is added, removed or set aside moves only the conversations that it gains or loses.
        """
        now, count = self._monotonic(), len(self.keys)
        if pin is not None:
            name = pin.encode(errors="replace")
            in_use = [key for key in self.keys if key.aside_until <= now]
            if in_use:
                return max(in_use, key=lambda key: blake2b(key.seed + name).digest()).number - 1
        for step in range(1, count + 1):
            index = (self._last + step) % count
            if self.keys[index].aside_until <= now:
                self._last = index
                return index
        return min(range(count), key=lambda one: self.keys[one].aside_until)

    def on_refused(self, key: ChannelKey, status: int, seconds: float) -> None:
        """Set a key aside, and report it."""
        now = self._monotonic()
        was_in_use = key.aside_until <= now
        key.aside_until = max(key.aside_until, now + seconds)
        if self.listener is not None:
            self.listener(key.number, status, was_in_use)


def _is_any(known: Sequence[tuple[int, str]], status: int, message: str) -> bool:
    return any(status == one and text in message for one, text in known)


# The dialect of a media upstream whose `wire` does not name one.
PLAIN = "plain"

VideoTier: TypeAlias = Literal["lite", "mini", "fast", "full"]
VIDEO_TIERS: tuple[VideoTier, ...] = get_args(VideoTier)

BUILTIN_TOOLS = ("web_search", "image_generation")

# Where a chat upstream takes instructions: anywhere in the conversation, or at its beginning.
SYSTEM_TURNS = ("anywhere", "first")

# The names of the token maximum in chat requests.
MAX_TOKENS_PARAMS = ("max_tokens", "max_completion_tokens")

# The flags of a public catalog entry (contract §5).
CAPABILITIES = (
    "tools",
    "vision",
    "web_search",
    "image_gen",
    "video_gen",
    "thinking",
    "json",
    "open_source",
)


@dataclass(frozen=True, slots=True)
class HealthSpec:
    """When a channel is taken out of rotation, and for how long (contract §4).

    `first_event_seconds`: how long it may be silent on chat before the next channel is tried; None:
    only the call's limit.
    """

    failures: int = 5
    cooldown_seconds: float = 10.0
    first_event_seconds: float | None = None


class ObtainedSecrets:
    """Secrets obtained with a channel's credentials: access tokens, assertions, temporary keys.

    Of each kind the present and the previous ones are kept, for requests under way. `version`
    changes with them.
    """

    __slots__ = ("_kinds", "version")

    def __init__(self) -> None:
        self._kinds: Mapping[str, Sequence[tuple[str, ...]]] = {}
        self.version = 0

    def __repr__(self) -> str:
        return f"<ObtainedSecrets {self.version}>"

    def add(self, kind: str, *texts: str) -> None:
        """Add the present ones of a kind, before they are sent anywhere. Thread-safe."""
        known = self._kinds.get(kind, ())
        if not known or known[-1] != texts:
            self._kinds = {**self._kinds, kind: (*known[-1:], texts)}
            self.version += 1

    @property
    def texts(self) -> Iterator[str]:
        """All secrets kept."""
        return (text for sets in self._kinds.values() for texts in sets for text in texts)


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """One upstream account: its address, protocols and capacity."""

    id: str
    base_url: str  # scheme, host and the prefix of every path, without a trailing slash
    api_key: str = field(repr=False)
    protocols: frozenset[str]
    tools: frozenset[str]
    max_tokens_param: str | None  # one of MAX_TOKENS_PARAMS; None: accepts either
    max_concurrency: int
    priority: int  # lower is tried first
    health: HealthSpec
    wire: Mapping[str, str] = field(default_factory=dict)  # protocol to dialect, if not plain
    paths: Mapping[str, str] = field(default_factory=dict)  # protocol to whole path, if not its own
    auth: str | None = None  # a name of `KEY_HEADERS`; None: the protocol's own
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # of every request
    query: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # the same, not encoded
    field_secrets: frozenset[str] = field(default=frozenset(), repr=False)  # in those two
    more_keys: tuple[str, ...] = field(default=(), repr=False)  # rotated with `api_key`
    transport: Transport | None = None  # None: the default
    authorizer: AuthorizerSpec | None = None  # None: a key, or nothing, authenticates the gateway
    # Protocols of models whose upstream name contains a text: the first match counts. Empty: every
    # model is available in all protocols.
    by_model: tuple[tuple[str, frozenset[str]], ...] = ()
    kind: str = ""  # the row of `kinds.py` with its defaults
    propagate_trace: bool = False  # its requests carry trace context
    # On chat: it takes instructions at the beginning alone, or a key for the prompt's cache. On
    # messages: it is not the protocol's maker, to whom alone a client's billing header is of use.
    has_system_first: bool = False
    takes_cache_key: bool = False
    drops_billing_header: bool = False
    # Derived at the first use, by the function or object that derives it: `Address.request`,
    # `authorizer_of`, `redaction_of`, and `addressed` of media.
    derived: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    obtained: ObtainedSecrets = field(
        default_factory=ObtainedSecrets, init=False, repr=False, compare=False
    )
    ring: KeyRing = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kind = KINDS.get(self.kind)
        known = (
            NO_KNOWN if kind is None else KnownRefusals(kind.key_refusals, kind.request_refusals)
        )
        object.__setattr__(self, "ring", KeyRing(self.keys, known=known))

    @property
    def keys(self) -> tuple[str, ...]:
        """Its keys in the order of the file; the first may be empty."""
        return (self.api_key, *self.more_keys)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets of the channel: the one list that every redaction uses.

        Its keys, secrets in headers and query, credentials of other kinds and of its proxy, and
        what was obtained with them.
        """
        proxy = None if self.transport is None else self.transport.proxy
        return (
            *self.keys,
            *sorted(self.field_secrets),
            *(() if self.authorizer is None else self.authorizer.secrets),
            *(() if proxy is None else proxy.secrets),
            *self.obtained.texts,
        )

    def spoken(self, upstream_model: str) -> frozenset[str]:
        """Return the protocols that support a model, given by its upstream name."""
        if not self.by_model:
            return self.protocols
        name = upstream_model.lower()
        return next((them for text, them in self.by_model if text in name), self.protocols)

    def dialect_of(self, protocol: str) -> str:
        """Return the name of the dialect (`channels/media`) of this upstream for a protocol."""
        return self.wire.get(protocol, PLAIN)


@dataclass(frozen=True, slots=True)
class Binding:
    """A channel that serves a model, and its upstream name if that differs.

    `price` has the members that differ on this channel, `cost` the provider's prices; None if not
    configured. `first_event_seconds` replaces the channel's. `tier` is the service tier that the
    channel's headers ask for.
    """

    channel_id: str
    upstream_model: str | None = None
    price: PriceSpec | None = None
    cost: PriceSpec | None = None
    first_event_seconds: float | None = None
    tier: str | None = None


@dataclass(frozen=True, slots=True)
class VideoSpec:
    """The inputs of a general video model. Without a tier, any resolution and duration."""

    tier: VideoTier | None = None
    real_person: bool = False  # images are registered with the upstream first
    third_party: bool = False  # accepts a reference video
    multimodal: bool = False  # accepts videos, sounds and images with a role


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One entry of the catalog and its channels."""

    id: str
    bindings: tuple[Binding, ...]
    display_name: str
    owned_by: str
    created: int  # Unix seconds
    context_size: int | None  # tokens
    max_output_tokens: int | None
    price: PriceSpec
    multiplier: Decimal  # applies to every price of the model
    capabilities: frozenset[str]
    callable: bool  # False: a placeholder, listed but refused with model_not_found
    endpoint_type: str | None  # None: an ordinary chat model
    aliases: tuple[str, ...]
    video: VideoSpec = VideoSpec()
    refuses_unpriced: bool = True  # requests for a dearer service tier without a price
    # Derived from its prices at the first use: by `TokenPrice` (`price_of`), and by the candidate
    # (`UpstreamPrices.of`).
    derived: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def is_served_on(self, protocol: str) -> bool:
        """Whether the model is for this endpoint (spec: General facts 4; Model catalog entry)."""
        return self.endpoint_type in MODEL_TYPES[protocol]


@dataclass(frozen=True, slots=True)
class Registry:
    """All channels and models, in the order of the file.

    The maker guarantees that keys are ids, that bindings name channels, and that no two models
    share an id or an alias; a configuration with such a fault never becomes a Registry.
    """

    channels: Mapping[str, ChannelSpec]
    models: Mapping[str, ModelSpec]
    _by_name: Mapping[str, ModelSpec] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name = dict(self.models)
        for model in self.models.values():
            assert self.models[model.id] is model
            assert all(binding.channel_id in self.channels for binding in model.bindings)
            for alias in model.aliases:
                assert alias not in by_name, alias
                by_name[alias] = model
        assert all(channel.id == key for key, channel in self.channels.items())
        for name, mapping in (
            ("channels", dict(self.channels)),
            ("models", dict(self.models)),
            ("_by_name", by_name),
        ):
            object.__setattr__(self, name, MappingProxyType(mapping))

    @classmethod
    def of(cls, channels: Iterable[ChannelSpec], models: Iterable[ModelSpec]) -> Registry:
        """Make a registry from its entries."""
        return cls(
            channels={channel.id: channel for channel in channels},
            models={model.id: model for model in models},
        )

    def resolve(self, model_id: str) -> ModelSpec | None:
        """Find a model by its id or an alias, exactly as written (spec: General facts 2)."""
        return self._by_name.get(model_id)

    def reaches(self, model: ModelSpec, protocols: Collection[str]) -> bool:
        """Whether a chat model can be called on a channel that supports one of these protocols."""
        if not model.callable or model.endpoint_type is not None:
            return False
        return any(
            not self.channels[one.channel_id]
            .spoken(one.upstream_model or model.id)
            .isdisjoint(protocols)
            for one in model.bindings
        )


# How a channel's key is sent: the values of `auth`, and the channel's own headers and query.
#
# A key is sent in one header or in one parameter of the query; if it is empty, or `auth` is `none`,
# in neither.

Pairs: TypeAlias = tuple[tuple[str, str], ...]
# Returns the header for a key.
KeyHeader: TypeAlias = Callable[[str], tuple[str, str]]

NO_AUTH = "none"
QUERY_AUTH = "query:"  # and the parameter's name


def bearer(api_key: str) -> tuple[str, str]:
    """Return the header of most upstreams."""
    return ("Authorization", f"Bearer {api_key}")


# By name, in the order in which they are listed for operators.
KEY_HEADERS: Mapping[str, KeyHeader] = MappingProxyType(
    {
        "bearer": bearer,
        "x-api-key": lambda api_key: ("x-api-key", api_key),
        "api-key": lambda api_key: ("api-key", api_key),
        "x-goog-api-key": lambda api_key: ("x-goog-api-key", api_key),
    }
)


class Credentials(Struct, frozen=True):
    """The additions of a channel to each of its requests.

    `key_headers` has the key, `query` is encoded, without question mark. `fixed` are the channel's
    own headers, `fixed_names` their names in lower case: they replace other headers of that name.
    """

    key_headers: Pairs
    query: str
    fixed: Pairs
    fixed_names: frozenset[str]

    def others(self, headers: Pairs) -> Pairs:
        """Return the headers that no fixed one replaces."""
        if not self.fixed:
            return headers
        return tuple(pair for pair in headers if pair[0].lower() not in self.fixed_names)

    def url(self, url: str) -> str:
        """Return a URL with the channel's query."""
        if not self.query:
            return url
        return f"{url}{'&' if '?' in url else '?'}{self.query}"


def credentials_of(channel: ChannelSpec, own_way: KeyHeader, key: str) -> Credentials:
    """Return a channel's additions with one of its keys; `own_way` is the protocol's header, for a
    channel without its own `auth`."""
    query = channel.query
    key_headers: Pairs = ()
    if key and channel.auth != NO_AUTH and channel.authorizer is None:
        if channel.auth is not None and channel.auth.startswith(QUERY_AUTH):
            query = (*query, (channel.auth.removeprefix(QUERY_AUTH), key))
        else:
            header = own_way if channel.auth is None else KEY_HEADERS[channel.auth]
            key_headers = (header(key),)
    return Credentials(
        key_headers,
        urlencode(query),
        channel.headers,
        frozenset(name.lower() for name, _ in channel.headers),
    )
