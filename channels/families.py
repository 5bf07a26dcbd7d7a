"""The families of the API, a row each: what one serves, sells and answers errors with.

A family is what a client sees as one kind of endpoint. Its `protocol` is its name in the
configuration (`protocols` of a channel) and in rows of the call log. What configuration, catalog,
prices, call log and errors have to know of each family is derived here, and nowhere listed again.
How the chat families look on the wire is `channels/dialects`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Literal, get_args

# The members of a model's price (`PriceSpec`), in the order in which the catalog shows them. The
# first ones are USD per million tokens.
TokenPrice = Literal["input", "output", "cached_input", "cache_write"]
# What of those tokens, or beside them, may be priced apart (`actors/wallet/sheets.py`): per million
# tokens, and each.
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
# The tiers of service that an upstream may serve at another price than its standard one.
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
    """The body of an error (spec: Errors); how each is written is `gw/errors.py`."""

    CHAT = auto()  # the first shape of the specification, also of what belongs to no family
    MESSAGES = auto()
    GEMINI = auto()
    IMAGES = auto()  # the first one with `param`


@dataclass(frozen=True, slots=True)
class Unit:
    """What a call is billed by instead of tokens: a row's `unit_type`, and the `kind` of its detail
    view (spec: Call log row, Call log detail)."""

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

    A model of this type that can be called has at least one of `prices`, where there are any;
    `more_prices` may stand beside them. A price by another unit would never be charged.
    """

    name: str
    prices: tuple[TokenPrice | UnitPrice, ...]
    more_prices: tuple[TokenPrice | UnitPrice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family.

    `dialect` names the folder of `channels/dialects` that knows its form on the wire, and makes it
    a row of the dialects' table (`channels/dialects/table.py`); empty where none does.
    `unit` is None where a call is billed by tokens. Families billed so without an endpoint type are
    the chat families: they serve the models that have none. One that has a unit and no endpoint
    type has no models of its own.
    `shown_as` is its name in catalog and call log, where that is not `protocol`.
    `streams`: a response may be a stream; `is_async`: the response names a task that is polled.
    `is_withdrawn`: models may be listed, but nothing is served and no channel speaks it.
    `wires`: the dialects that channels may speak it in (`channels/media`), of a chat family how it
    is hosted (`channels/dialects/dialect.py`), the usual one first; empty where there is one way
    alone.
    `by_model`: beginnings of model ids that need channels of another protocol, and which one.
    `tools_over`: the protocol that built-in tools run over, where it is not this one (contract §7).
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
        """What clients read of it (contract §5)."""
        return self.shown_as or self.protocol

    @property
    def is_chat(self) -> bool:
        """Is it one of the chat families?"""
        return self.unit is None and not self.endpoint_types

    @property
    def has_tasks(self) -> bool:
        """May what it begins be known to the key alone that began it?"""
        return bool(self.wires) and not self.is_chat

    def channel_protocol(self, model_id: str) -> str:
        """The protocol of the channels that serve a model of this family."""
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
# Templates; its models are those of `videos`.
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
# The types of the models of each family, by its protocol; None is the type of chat models (spec:
# General facts 4).
MODEL_TYPES: Mapping[str, frozenset[str | None]] = MappingProxyType(
    {
        row.protocol: frozenset({None} if row.is_chat else {one.name for one in row.endpoint_types})
        for row in _ROWS
    }
)
# The protocols a channel may speak (contract §2), and those of them that chat endpoints speak.
PROTOCOLS = tuple(row.protocol for row in _ROWS if not row.is_withdrawn)
CHAT_PROTOCOLS = tuple(row.protocol for row in _ROWS if row.is_chat)
PUBLIC_NAMES: Mapping[str, str] = MappingProxyType({row.protocol: row.public_name for row in _ROWS})
# A row's `unit_type`, by its protocol; none of what is billed by tokens.
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
# What costs more than the standard tier: a request has to be priced for it.
DEARER_TIERS: tuple[ServiceTier, ...] = ("priority", "fast", "ultrafast")
# A chat model that can be called has each of these.
CHAT_PRICES: tuple[TokenPrice, ...] = ("input", "output")
