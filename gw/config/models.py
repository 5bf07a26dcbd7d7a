"""A model of the file: its keys, and the record that is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal, get_args

from channels import registry
from channels.families import CHAT_PROTOCOLS, ENDPOINT_TYPES
from channels.prices import PriceSpec
from gw.config import keys, mappings, nodes, readers
from gw.config.faults import Location
from gw.config.prices import PRICE, entry_price

MAX_TOKENS = 1_000_000_000
LAST_SECOND = 253_402_300_799  # of the year 9999
TYPE_NAMES = tuple(ENDPOINT_TYPES)
Unpriced = Literal["refuse", "standard"]
UNPRICED: tuple[Unpriced, ...] = get_args(Unpriced)
# The keys that a chain may have; all others are its models'.
OF_CHAIN = (
    "id",
    "chain",
    "protocols",
    "display_name",
    "owned_by",
    "created",
    "callable",
    "aliases",
)
# The tier of models whose id has this suffix, unless they set another.
LITE: registry.VideoTier = "lite"


def tokens() -> readers.Reader[int | None]:
    """Read a number of tokens, or nothing."""
    return readers.optional(readers.whole(1, MAX_TOKENS))


def endpoint_type() -> readers.Reader[str | None]:
    """Read the endpoint of a model; nothing for a chat model."""
    return readers.optional(readers.choice(TYPE_NAMES, "null for a chat model, or"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A channel of a model; its id alone may stand in its place."""

    id: str = keys.required(readers.name_reader("a channel id"))
    """The channel."""
    upstream_model: str | None = keys.key(
        readers.optional(readers.name_reader("the upstream's name of the model")), None, name="as"
    )
    """The model's name over there."""
    price: PriceSpec | None = keys.key(entry_price(), None)
    """The members of the price that differ on this channel, or a `factor` of all."""
    cost: PriceSpec | None = keys.key(entry_price(), None)
    """What the provider charges, for margins."""
    first_event_seconds: float | None = keys.key(readers.optional(readers.seconds()), None)
    """In place of the channel's."""


BOUND = keys.keys_of(Bound)


def bound() -> readers.Reader[mappings.Section]:
    """Read a channel of a model: its id alone, or a mapping of id and `as`."""
    read_id, read_mapping = BOUND["id"].read, mappings.mapping(BOUND)

    def read(node: nodes.Node, at: Location) -> mappings.Section:
        if isinstance(node, nodes.Scalar) and not node.is_nothing:
            alone = {name: one.default for name, one in BOUND.items()}
            return mappings.Section({**alone, "id": read_id(node, at)}, at, {"id": at})
        return read_mapping(node, at)

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class Video:
    """The inputs of a general video model."""

    tier: registry.VideoTier | None = keys.key(
        readers.optional(readers.choice(registry.VIDEO_TIERS)), None
    )
    """Which resolutions and durations are taken; null: any, and `lite` of an id that ends in
    `-lite`."""
    real_person: bool = keys.key(readers.flag(), False)
    """Images are links, registered with the upstream first."""
    third_party: bool = keys.key(readers.flag(), False)
    """It takes a film to go by."""
    multimodal: bool = keys.key(readers.flag(), False)
    """It takes films, sounds and images with a role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The keys of one entry of the catalog."""

    id: str = keys.required(readers.name_reader("a model id"))
    """What clients call it. `dh-…` needs channels that speak avatars, `clip-…` such that speak
    clips."""
    channels: tuple[mappings.Section, ...] = keys.key(
        mappings.listing(bound(), "a list of channel ids, or of {id: …, as: …}"), ()
    )
    """The channels that serve it."""
    chain: tuple[mappings.LocatedValue[str], ...] = keys.key(
        mappings.listing(mappings.placed(readers.name_reader("a model id")), "a list of model ids"),
        (),
    )
    """Chat models that serve it in place of channels, the first preferred: a call is held for the
    dearest and charged for the one that serves it ([chains](running.md#chains-of-models))."""
    protocols: tuple[mappings.LocatedValue[str], ...] = keys.key(
        mappings.listing(
            mappings.placed(readers.choice(CHAT_PROTOCOLS)), "a list of chat protocols"
        ),
        (),
    )
    """Of a chain: its clients' protocols; none: every one that a model of it is reached by."""
    display_name: str = keys.key(readers.text(may_be_empty=True), "")
    """Its name for people; empty: the id."""
    owned_by: str = keys.key(readers.text(may_be_empty=True), "gateway")
    """Who made it."""
    created: int = keys.key(readers.whole(0, LAST_SECOND), 0)
    """When, in Unix seconds."""
    context_size: int | None = keys.key(tokens(), None)
    """Tokens of its context."""
    max_output_tokens: int | None = keys.key(tokens(), None)
    """Tokens of its longest output."""
    price: mappings.Section = keys.table(PRICE)
    """What it costs, in USD: per million tokens, or by the unit; numbers or exact texts
    ([prices](running.md#prices-of-chat-models))."""
    unpriced: Unpriced = keys.key(readers.choice(UNPRICED), "refuse")
    """Whether requests for a dearer service tier without a price are refused, or served at the
    standard one."""
    multiplier: Decimal = keys.key(
        readers.decimal("a factor", most=1000, above_zero=True, quoted=True), Decimal(1)
    )
    """Times every price of the model, as for a promotion."""
    capabilities: tuple[str, ...] = keys.key(mappings.choices(registry.CAPABILITIES), ())
    """The flags of its catalog entry."""
    callable: bool = keys.key(readers.flag(), True)
    """False: it is listed, and a call is a `model_not_found`."""
    endpoint_type: str | None = keys.key(endpoint_type(), None)
    """The endpoint that it is for; null: a chat model."""
    aliases: tuple[mappings.LocatedValue[str], ...] = keys.key(
        mappings.listing(mappings.placed(readers.name_reader("an alias")), "a list of model ids"),
        (),
    )
    """Older ids that still name it."""
    video: Video = keys.section(Video)
    """The inputs of a general video model."""


def model_spec(
    found: mappings.Section, asked_tiers: Mapping[str, str | None]
) -> registry.ModelSpec:
    """Return the model of a mapping without faults; `asked_tiers` are those of channels."""
    one = keys.record_of(Model, found)
    tier = one.video.tier or (LITE if one.id.endswith(f"-{LITE}") else None)
    return registry.ModelSpec(
        id=one.id,
        bindings=tuple(
            registry.Binding(
                bound.id,
                bound.upstream_model,
                bound.price,
                bound.cost,
                bound.first_event_seconds,
                asked_tiers[bound.id],
            )
            for bound in (keys.record_of(Bound, channel) for channel in one.channels)
        ),
        display_name=one.display_name or one.id,
        owned_by=one.owned_by,
        created=one.created,
        context_size=one.context_size,
        max_output_tokens=one.max_output_tokens,
        price=PriceSpec(**one.price.values),
        multiplier=one.multiplier,
        capabilities=frozenset(one.capabilities),
        callable=one.callable,
        endpoint_type=one.endpoint_type,
        aliases=tuple(alias.value for alias in one.aliases),
        video=registry.VideoSpec(
            tier, one.video.real_person, one.video.third_party, one.video.multimodal
        ),
        refuses_unpriced=one.unpriced == "refuse",
    )


def models_of(
    found: Sequence[mappings.Section], asked_tiers: Mapping[str, str | None]
) -> list[registry.ModelSpec]:
    """Return the models of mappings without faults, in their order; `asked_tiers` as above."""
    made = [model_spec(one, asked_tiers) for one in found]
    by_name = {name: one for one in made for name in (one.id, *one.aliases)}
    return [
        _chained(model, keys.record_of(Model, one), by_name) if one.values["chain"] else model
        for one, model in zip(found, made, strict=True)
    ]


def _chained(
    model: registry.ModelSpec, one: Model, by_name: Mapping[str, registry.ModelSpec]
) -> registry.ModelSpec:
    """Return a chain with its models, and with what holds of each of them."""
    steps = tuple(by_name[name.value] for name in one.chain)
    protocols = frozenset(name.value for name in one.protocols)
    return replace(
        model,
        chain=steps,
        protocols=protocols or None,
        bindings=tuple(
            registry.Binding(bound.channel_id, bound.upstream_model or step.id)
            for step in steps
            for bound in step.bindings
        ),
        context_size=_least(step.context_size for step in steps),
        max_output_tokens=_least(step.max_output_tokens for step in steps),
        capabilities=frozenset.intersection(*(step.capabilities for step in steps)),
    )


def _least(sizes: Iterable[int | None]) -> int | None:
    return min((size for size in sizes if size is not None), default=None)
