"""What the gateway knows of its upstreams and models: frozen facts out of the configuration.

Nothing here changes while it is used; a reload makes a new Registry. How the facts are read and
checked is in `gw/config`, which protocols, prices and endpoint types there are in `families.py`,
how busy or healthy a channel is in `actors`, how a price becomes a cost in
`actors/wallet/pricing.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

from channels.authorizers.specs import AuthorizerSpec
from channels.families import FAMILIES
from channels.http.transport import Transport
from channels.key_ring import KeyRing
from channels.kinds import KINDS

# The dialect of media upstreams that a channel speaks where its `wire` does not say.
PLAIN = "plain"

VideoTier: TypeAlias = Literal["lite", "mini", "fast", "full"]
VIDEO_TIERS: tuple[VideoTier, ...] = get_args(VideoTier)

BUILTIN_TOOLS = ("web_search", "image_generation")

# Under which name an upstream takes the token maximum on chat.
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
    """When a channel is taken out of rotation, and for how long (contract §4)."""

    failures: int = 5
    cooldown_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """One upstream account: where it is, what it speaks, how much it may carry."""

    id: str
    base_url: str  # scheme, host and the prefix of every path, without a trailing slash
    api_key: str = field(repr=False)
    protocols: frozenset[str]
    tools: frozenset[str]
    max_tokens_param: str | None  # one of MAX_TOKENS_PARAMS; None: it takes either
    max_concurrency: int
    priority: int  # lower is tried first
    health: HealthSpec
    wire: Mapping[str, str] = field(default_factory=dict)  # protocol to dialect, where not plain
    paths: Mapping[str, str] = field(default_factory=dict)  # protocol to whole path, where not own
    auth: str | None = None  # one of `credentials.py`; None: the protocol's own way
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # of every request
    query: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # likewise, not encoded
    field_secrets: frozenset[str] = field(default=frozenset(), repr=False)  # in those two
    more_keys: tuple[str, ...] = field(default=(), repr=False)  # used in turn with `api_key`
    transport: Transport | None = None  # None: the usual one
    authorizer: AuthorizerSpec | None = None  # None: a key, or nothing, says who asks
    # Which of its protocols models are spoken to in that have a text in their name over there: the
    # first of these that is found. Empty: each model in each of them.
    by_model: tuple[tuple[str, frozenset[str]], ...] = ()
    kind: str = ""  # the row of `kinds.py` that filled in what the file left out
    propagate_trace: bool = False  # its requests say which trace they belong to
    # What is made of all this once and looked up by every call, under whoever made it.
    made: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    ring: KeyRing = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kind = KINDS.get(self.kind)
        refusals = () if kind is None else kind.key_refusals
        object.__setattr__(self, "ring", KeyRing(1 + len(self.more_keys), refusals=refusals))

    @property
    def keys(self) -> tuple[str, ...]:
        """Its keys in the order of the file; the first may be empty."""
        return (self.api_key, *self.more_keys)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What nobody but the upstream may read: its keys, and secrets in headers and query."""
        others = () if self.authorizer is None else self.authorizer.secrets
        return (*self.keys, *sorted(self.field_secrets), *others)

    def spoken(self, upstream_model: str) -> frozenset[str]:
        """The protocols that a model, by its name over there, is spoken to in."""
        if not self.by_model:
            return self.protocols
        name = upstream_model.lower()
        return next((them for text, them in self.by_model if text in name), self.protocols)

    def dialect_of(self, protocol: str) -> str:
        """The name of the dialect (`channels/media`) that this upstream speaks a protocol in."""
        return self.wire.get(protocol, PLAIN)


@dataclass(frozen=True, slots=True)
class Binding:
    """A channel that serves a model, and the model's name over there when it is another."""

    channel_id: str
    upstream_model: str | None = None


@dataclass(frozen=True, slots=True)
class PriceSpec:
    """List prices in USD before the multiplier; None where the file names no price.

    The first four are per million tokens, `per_*` per unit; images whose output has more than
    `area_threshold_mp` megapixels cost `per_image_large` each, videos of a resolution in
    `per_second_by_resolution` that for a second.
    """

    input: Decimal | None = None
    output: Decimal | None = None
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None
    per_image: Decimal | None = None
    per_second: Decimal | None = None
    per_generation: Decimal | None = None
    per_character: Decimal | None = None
    per_call: Decimal | None = None
    per_image_large: Decimal | None = None
    area_threshold_mp: Decimal | None = None
    per_reference: Decimal | None = None
    per_second_by_resolution: Mapping[str, Decimal] | None = None


@dataclass(frozen=True, slots=True)
class VideoSpec:
    """What a general video model takes. Without a tier, any resolution and duration."""

    tier: VideoTier | None = None
    real_person: bool = False  # images are registered with the upstream first
    third_party: bool = False  # may take a film to go by
    multimodal: bool = False  # may take films, sounds and images with a role


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One entry of the catalog and who serves it."""

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
    callable: bool  # False: a placeholder, listed but answered with model_not_found
    endpoint_type: str | None  # None: an ordinary chat model
    aliases: tuple[str, ...]
    video: VideoSpec = VideoSpec()

    def is_served_on(self, protocol: str) -> bool:
        """Is this the endpoint the model is for (spec: General facts 4; Model catalog entry)?"""
        return FAMILIES[protocol].serves(self.endpoint_type)


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
