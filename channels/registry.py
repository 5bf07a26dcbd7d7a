"""The upstreams and models of the configuration: immutable facts.

Nothing here changes in use; a reload makes a new Registry. `gw/config` reads and checks the facts,
`families.py` lists protocols, prices and endpoint types, `actors` tracks load and health of
channels, and `actors/wallet/pricing.py` computes costs from prices. The keys of a channel are in
`key_ring.py`, how one is sent in `credentials.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

from channels.authorizers.specs import AuthorizerSpec
from channels.data_promise import NO_PROMISE, DataPromise
from channels.families import FAMILIES, MODEL_TYPES
from channels.http.transport import Transport
from channels.key_ring import NO_KNOWN, KeyRing, KnownRefusals
from channels.kinds import KINDS
from channels.prices import PriceSpec

# The dialect of a media upstream whose `wire` does not name one.
PLAIN = "plain"

VideoTier: TypeAlias = Literal["lite", "mini", "fast", "full"]
VIDEO_TIERS: tuple[VideoTier, ...] = get_args(VideoTier)

BUILTIN_TOOLS = ("web_search", "image_generation")

# Where a chat upstream takes instructions: anywhere in the conversation, or at its beginning.
SYSTEM_TURNS = ("anywhere", "first")

# Who gets an upstream's 429: the client, or first one more channel.
ON_429 = ("client", "next")

# The names of the token maximum in chat requests.
MAX_TOKENS_PARAMS = ("max_tokens", "max_completion_tokens")

# The flags of a public catalog entry (reference 4.2).
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
    """When a channel is taken out of rotation, and for how long (reference 10.4).

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
    hops_when_throttled: bool = False  # after its 429 another channel or key is tried, once
    data_promise: DataPromise = NO_PROMISE
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
        ring = KeyRing(self.keys, known=known, rests=self.hops_when_throttled)
        object.__setattr__(self, "ring", ring)

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
    # Of a chain: the models that serve it, the first preferred; its bindings are theirs, its price
    # is empty.
    chain: tuple[ModelSpec, ...] = ()
    protocols: frozenset[str] | None = None  # of a chain: those of its clients; None: any
    # Derived from its prices at the first use: by `TokenPrice` (`price_of`), and by the candidate
    # (`UpstreamPrices.of`).
    derived: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def is_served_on(self, protocol: str) -> bool:
        """Whether the model is for this endpoint (reference 4.2)."""
        if self.protocols is not None and protocol not in self.protocols:
            return False
        return self.endpoint_type in MODEL_TYPES[protocol]

    def step(self, model_id: str) -> ModelSpec:
        """Return the model of this id, which is in the chain."""
        return next(one for one in self.chain if one.id == model_id)


@dataclass(frozen=True, slots=True)
class Registry:
    """All channels and models, in the order of the file.

    The maker guarantees that keys are ids, that bindings name channels, that the models of chains
    are in `models`, and that no two models share an id or an alias; a configuration with such a
    fault never becomes a Registry.
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
        """Find a model by its id or an alias, exactly as written (reference 4.1)."""
        return self._by_name.get(model_id)

    def promises(self, model: ModelSpec) -> list[DataPromise]:
        """Return what the model's channels promise for data, each once; empty ones for none."""
        bound = (self.channels[binding.channel_id] for binding in model.bindings)
        return list(dict.fromkeys(channel.data_promise for channel in bound))

    def is_spoken(self, model: ModelSpec, protocol: str) -> bool:
        """Whether a model is for this endpoint, and one of its channels speaks its protocol."""
        if not (model.callable and model.is_served_on(protocol)):
            return False
        return self._has_channel(model, (FAMILIES[protocol].channel_protocol(model.id),))

    def reaches(self, model: ModelSpec, protocols: Collection[str]) -> bool:
        """Whether a chat model can be called on a channel that supports one of these protocols."""
        if not model.callable or model.endpoint_type is not None:
            return False
        return self._has_channel(model, protocols)

    def _has_channel(self, model: ModelSpec, protocols: Collection[str]) -> bool:
        return any(
            not self.channels[one.channel_id]
            .spoken(one.upstream_model or model.id)
            .isdisjoint(protocols)
            for one in model.bindings
        )
