"""The families of the API, a row each: what one serves, how it is billed, and its error shape.

A family is one kind of endpoint for clients. Its `protocol` is its name in the configuration
(`protocols` of a channel) and in rows of the call log. All that configuration, catalog, prices,
call log and errors need of each family is derived here and listed nowhere else. `channels/dialects`
has the form of chat families on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Literal, get_args

# The members of a model's price (`PriceSpec`), in the order of the catalog. The first ones are USD
# per million tokens.
TokenPrice = Literal["input", "output", "cached_input", "cache_write"]
# Parts of those tokens, or other usage, that may be priced separately (`actors/wallet/sheets.py`):
# per million tokens, and each.
TokenPartPrice = Literal[
    "cache_write_1h",
    "audio_input",
    "cached_audio_input",
    "image_input",
    "cached_image_input",
    "audio_output",
    "image_output",
    "reasoning_output",
]
EachPrice = Literal["per_web_search", "per_file_search", "per_code_session", "per_request"]
# Service tiers that an upstream may serve at another price than its standard one.
ServiceTier = Literal["priority", "flex", "batch", "fast", "ultrafast"]
UnitPrice = Literal[
    "per_image",
    "per_image_large",
    "area_threshold_mp",
    "per_reference",
    "per_second",
    "per_generation",
    "per_character",
    "per_call",
    "per_second_by_resolution",
]


class ErrorShape(Enum):
    """The body of an error (spec: Errors), encoded in `gw/errors.py`."""

    CHAT = auto()  # the first shape of the specification, also outside all families
    MESSAGES = auto()
    GEMINI = auto()
    IMAGES = auto()  # the first one with `param`


@dataclass(frozen=True, slots=True)
class Unit:
    """What a call is billed by instead of tokens: a row's `unit_type`, and the `kind` of its
    detail view (spec: Call log row, Call log detail)."""

    name: str
    kind: str | None


IMAGE = Unit("image", "image")
VIDEO = Unit("video", "video")
MUSIC = Unit("music", "music")
AUDIO = Unit("audio", "audio")
AVATAR = Unit("avatar", "video")
VOICE = Unit("voice", "audio")
SEARCH = Unit("search", None)  # retrieval
TRANSCRIPT = Unit("transcript", "audio")
# In the specification's order.
UNITS = (IMAGE, VIDEO, MUSIC, AUDIO, AVATAR, VOICE, SEARCH, TRANSCRIPT)


@dataclass(frozen=True, slots=True)
class EndpointType:
    """A dedicated endpoint, named after its path (spec: Model catalog entry).

    A callable model of this type has at least one of `prices`, if there are any; `more_prices` may
    be added. A price by another unit would never be charged.
    """

    name: str
    prices: tuple[TokenPrice | UnitPrice, ...]
    more_prices: tuple[TokenPrice | UnitPrice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family.

    `dialect` names the folder of `channels/dialects` for its form on the wire, and adds it to the
    dialects' table (`channels/dialects/table.py`); empty without one. `unit` is None if a call is
    billed by tokens. Families billed so without an endpoint type are the chat families: they serve
    the models without endpoint type. A family with a unit and without endpoint type has no models
    of its own. `shown_as` is its name in catalog and call log, if that is not `protocol`.
    `streams`: a response may be a stream; `is_async`: the response names a task that is polled.
    `is_withdrawn`: models may be listed, but nothing is served and no channel supports it. `wires`:
    the dialects of channels for it (`channels/media`), of a chat family its hostings
    (`channels/dialects/hosting.py`), the default first; empty if there is only one. `by_model`:
    prefixes of model ids that need channels of another protocol, and that protocol. `tools_over`:
    the protocol used for built-in tools, if it is another one (contract §7).
    """

    protocol: str
    dialect: str = ""
    unit: Unit | None = None
    endpoint_types: tuple[EndpointType, ...] = ()
    error_shape: ErrorShape = ErrorShape.CHAT
    shown_as: str = ""
    streams: bool = False
    is_async: bool = False
    is_withdrawn: bool = False
    wires: tuple[str, ...] = ()
    by_model: tuple[tuple[str, str], ...] = ()
    tools_over: str | None = None

    @property
    def public_name(self) -> str:
        """Its name for clients (contract §5)."""
        return self.shown_as or self.protocol

    @property
    def is_chat(self) -> bool:
        """Whether it is one of the chat families."""
        return self.unit is None and not self.endpoint_types

    @property
    def has_tasks(self) -> bool:
        """Whether a task may be known only to the key that began it."""
        return bool(self.wires) and not self.is_chat

    def channel_protocol(self, model_id: str) -> str:
        """Return the protocol of the channels that serve a model of this family."""
        for beginning, protocol in self.by_model:
            if model_id.startswith(beginning):
                return protocol
        return self.protocol


# --- The rows ---

CHAT = Family(
    protocol="chat",
    dialect="chat",
    shown_as="chat_completions",
    streams=True,
    wires=("plain", "mistral", "groq", "fireworks"),
    tools_over="responses",
)
MESSAGES = Family(
    protocol="messages",
    dialect="messages",
    error_shape=ErrorShape.MESSAGES,
    streams=True,
    wires=("plain", "vertex", "bedrock", "converse"),
)
RESPONSES = Family(protocol="responses", dialect="responses", streams=True)
GEMINI = Family(
    protocol="native",
    dialect="gemini",
    shown_as="native_content",
    error_shape=ErrorShape.GEMINI,
    streams=True,
)

IMAGES = Family(
    protocol="images",
    dialect="images",
    unit=IMAGE,
    endpoint_types=(
        EndpointType(
            "images_generations",
            ("per_image",),
            ("per_image_large", "area_threshold_mp", "per_reference"),
        ),
    ),
    error_shape=ErrorShape.IMAGES,
)
VIDEOS = Family(
    protocol="videos",
    unit=VIDEO,
    endpoint_types=(
        EndpointType(
            "videos_generations", ("per_second", "per_call"), ("per_second_by_resolution",)
        ),
        EndpointType(
            "contents_generations_tasks", ("per_second", "per_call"), ("per_second_by_resolution",)
        ),
    ),
    is_async=True,
    wires=("plain", "ark", "openai"),
    by_model=(("dh-", "avatars"), ("clip-", "clips")),
)
EMBEDDINGS = Family(
    protocol="embeddings",
    endpoint_types=(EndpointType("embeddings", ("input",)),),
    is_withdrawn=True,
)
MUSIC_GENERATIONS = Family(
    protocol="music",
    unit=MUSIC,
    endpoint_types=(EndpointType("music_generations", ("per_generation",)),),
    is_async=True,
    wires=("plain", "suno"),
)
SPEECH = Family(
    protocol="speech",
    unit=AUDIO,
    endpoint_types=(EndpointType("audio_speech", ("per_character", "per_call")),),
    is_async=True,
    wires=("plain", "minimax"),
)
VOICES = Family(
    protocol="voices",
    unit=VOICE,
    endpoint_types=(EndpointType("audio_voices", ("per_call", "per_character")),),
    wires=("plain", "shanjian"),
)
TRANSCRIPTS = Family(
    protocol="transcripts",
    unit=TRANSCRIPT,
    endpoint_types=(EndpointType("transcripts_extract", ("per_call",)),),
    wires=("plain",),
)
AVATARS = Family(
    protocol="avatars",
    unit=AVATAR,
    endpoint_types=(EndpointType("videos_avatars", ("per_call",)),),
    is_async=True,
    wires=("plain", "shanjian"),
)
# Templates; they use the models of `videos`.
CLIPS = Family(protocol="clips", unit=VIDEO, wires=("plain", "shanjian"))
TRANSCRIPTIONS = Family(
    protocol="transcriptions",
    unit=AUDIO,
    endpoint_types=(
        EndpointType("audio_transcriptions", ("per_second", "per_call", "input"), ("output",)),
    ),
    error_shape=ErrorShape.IMAGES,
)
RERANK = Family(
    protocol="rerank",
    dialect="rerank",
    unit=SEARCH,
    endpoint_types=(EndpointType("rerank", ("per_call", "input")),),
    error_shape=ErrorShape.IMAGES,
)
MODERATIONS = Family(
    protocol="moderations",
    dialect="moderations",
    endpoint_types=(EndpointType("moderations", ()),),  # free
    error_shape=ErrorShape.IMAGES,
)

_ROWS = (
    CHAT,
    MESSAGES,
    RESPONSES,
    GEMINI,
    IMAGES,
    VIDEOS,
    EMBEDDINGS,
    MUSIC_GENERATIONS,
    SPEECH,
    VOICES,
    TRANSCRIPTS,
    AVATARS,
    CLIPS,
    TRANSCRIPTIONS,
    RERANK,
    MODERATIONS,
)

# --- What is derived from them ---

FAMILIES: Mapping[str, Family] = MappingProxyType({row.protocol: row for row in _ROWS})
# The endpoint types of the models of each family, by its protocol; None is the type of chat models
# (spec: General facts 4).
MODEL_TYPES: Mapping[str, frozenset[str | None]] = MappingProxyType(
    {
        row.protocol: frozenset({None} if row.is_chat else {one.name for one in row.endpoint_types})
        for row in _ROWS
    }
)
# The protocols that a channel may support (contract §2), and those of chat endpoints.
PROTOCOLS = tuple(row.protocol for row in _ROWS if not row.is_withdrawn)
CHAT_PROTOCOLS = tuple(row.protocol for row in _ROWS if row.is_chat)
PUBLIC_NAMES: Mapping[str, str] = MappingProxyType({row.protocol: row.public_name for row in _ROWS})
# A row's `unit_type`, by its protocol; none for those billed by tokens.
UNIT_TYPES: Mapping[str, str] = MappingProxyType(
    {row.protocol: row.unit.name for row in _ROWS if row.unit is not None}
)
DETAIL_KINDS: Mapping[str, str] = MappingProxyType(
    {unit.name: unit.kind for unit in UNITS if unit.kind is not None}
)
ENDPOINT_TYPES: Mapping[str, EndpointType] = MappingProxyType(
    {one.name: one for row in _ROWS for one in row.endpoint_types}
)

TOKEN_PRICES: tuple[TokenPrice, ...] = get_args(TokenPrice)
UNIT_PRICES: tuple[UnitPrice, ...] = get_args(UnitPrice)
TOKEN_PART_PRICES: tuple[TokenPartPrice, ...] = get_args(TokenPartPrice)
EACH_PRICES: tuple[EachPrice, ...] = get_args(EachPrice)
SERVICE_TIERS: tuple[ServiceTier, ...] = get_args(ServiceTier)
# Tiers that cost more than the standard one: a request needs a price for them.
DEARER_TIERS: tuple[ServiceTier, ...] = ("priority", "fast", "ultrafast")
# A callable chat model has each of these.
CHAT_PRICES: tuple[TokenPrice, ...] = ("input", "output")
