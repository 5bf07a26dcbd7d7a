"""The families of the API, a row each: what one serves, how it is billed, and its error shape.

A family is one kind of endpoint for clients. Its `protocol` is its name in the configuration
(`protocols` of a channel) and in rows of the call log. All that configuration, catalog, prices,
call log and errors need of each family is derived here and listed nowhere else. `channels/dialects`
has the form of chat families on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import get_args

from channels.family import (
    AUDIO,
    AVATAR,
    IMAGE,
    MUSIC,
    SEARCH,
    TRANSCRIPT,
    UNITS,
    VIDEO,
    VOICE,
    EachPrice,
    EndpointType,
    ErrorShape,
    Family,
    ServiceTier,
    TokenPartPrice,
    TokenPrice,
    UnitPrice,
)

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
