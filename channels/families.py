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

from channels import family

_END_USERS = ("safety_identifier", "user", "metadata")  # of `metadata` its `user_id`

CHAT = family.Family(
    protocol="chat",
    dialect="chat",
    shown_as="chat_completions",
    streams=True,
    wires=("plain", "mistral", "groq", "fireworks"),
    tools_over="responses",
    end_users=_END_USERS,
)
MESSAGES = family.Family(
    protocol="messages",
    dialect="messages",
    error_shape=family.ErrorShape.MESSAGES,
    streams=True,
    wires=("plain", "vertex", "bedrock", "converse"),
    end_users=("metadata",),
)
RESPONSES = family.Family(
    protocol="responses", dialect="responses", streams=True, end_users=_END_USERS
)
GEMINI = family.Family(
    protocol="native",
    dialect="gemini",
    shown_as="native_content",
    error_shape=family.ErrorShape.GEMINI,
    streams=True,
    end_users=(),
)

IMAGES = family.Family(
    protocol="images",
    dialect="images",
    unit=family.IMAGE,
    endpoint_types=(
        family.EndpointType(
            "images_generations",
            ("per_image",),
            ("per_image_large", "area_threshold_mp", "per_reference"),
        ),
    ),
    error_shape=family.ErrorShape.IMAGES,
)
VIDEOS = family.Family(
    protocol="videos",
    unit=family.VIDEO,
    endpoint_types=(
        family.EndpointType(
            "videos_generations", ("per_second", "per_call"), ("per_second_by_resolution",)
        ),
        family.EndpointType(
            "contents_generations_tasks", ("per_second", "per_call"), ("per_second_by_resolution",)
        ),
    ),
    is_async=True,
    wires=("plain", "ark", "openai"),
    by_model=(("dh-", "avatars"), ("clip-", "clips")),
)
EMBEDDINGS = family.Family(
    protocol="embeddings",
    dialect="embeddings",
    endpoint_types=(family.EndpointType("embeddings", ("input",)),),
)
# The same models on channels of native-content.
NATIVE_EMBEDDINGS = family.Family(
    protocol="native_embeddings",
    dialect="native_embeddings",
    endpoint_types=EMBEDDINGS.endpoint_types,
    error_shape=family.ErrorShape.GEMINI,
    by_model=(("", GEMINI.protocol),),
    end_users=(),
)
MUSIC_GENERATIONS = family.Family(
    protocol="music",
    unit=family.MUSIC,
    endpoint_types=(family.EndpointType("music_generations", ("per_generation",)),),
    is_async=True,
    wires=("plain", "suno"),
)
SPEECH = family.Family(
    protocol="speech",
    unit=family.AUDIO,
    endpoint_types=(family.EndpointType("audio_speech", ("per_character", "per_call")),),
    is_async=True,
    wires=("plain", "minimax"),
)
VOICES = family.Family(
    protocol="voices",
    unit=family.VOICE,
    endpoint_types=(family.EndpointType("audio_voices", ("per_call", "per_character")),),
    wires=("plain", "shanjian"),
)
TRANSCRIPTS = family.Family(
    protocol="transcripts",
    unit=family.TRANSCRIPT,
    endpoint_types=(family.EndpointType("transcripts_extract", ("per_call",)),),
    wires=("plain",),
)
AVATARS = family.Family(
    protocol="avatars",
    unit=family.AVATAR,
    endpoint_types=(family.EndpointType("videos_avatars", ("per_call",)),),
    is_async=True,
    wires=("plain", "shanjian"),
)
# Templates; they use the models of `videos`.
CLIPS = family.Family(protocol="clips", unit=family.VIDEO, wires=("plain", "shanjian"))
TRANSCRIPTIONS = family.Family(
    protocol="transcriptions",
    unit=family.AUDIO,
    endpoint_types=(
        family.EndpointType(
            "audio_transcriptions", ("per_second", "per_call", "input"), ("output",)
        ),
    ),
    error_shape=family.ErrorShape.IMAGES,
)
RERANK = family.Family(
    protocol="rerank",
    dialect="rerank",
    unit=family.SEARCH,
    endpoint_types=(family.EndpointType("rerank", ("per_call", "input")),),
    error_shape=family.ErrorShape.IMAGES,
)
MODERATIONS = family.Family(
    protocol="moderations",
    dialect="moderations",
    endpoint_types=(family.EndpointType("moderations", ()),),  # free
    error_shape=family.ErrorShape.IMAGES,
)
DECISIONS = family.Family(
    protocol="decisions",
    dialect="decisions",
    endpoint_types=(family.EndpointType("decisions", ("input",)),),
    end_users=_END_USERS,
)

_ROWS = (
    CHAT,
    MESSAGES,
    RESPONSES,
    GEMINI,
    IMAGES,
    VIDEOS,
    EMBEDDINGS,
    NATIVE_EMBEDDINGS,
    MUSIC_GENERATIONS,
    SPEECH,
    VOICES,
    TRANSCRIPTS,
    AVATARS,
    CLIPS,
    TRANSCRIPTIONS,
    RERANK,
    MODERATIONS,
    DECISIONS,
)


FAMILIES: Mapping[str, family.Family] = MappingProxyType({row.protocol: row for row in _ROWS})
# The endpoint types of the models of each family, by its protocol; None is the type of chat models
# (reference 4.2).
MODEL_TYPES: Mapping[str, frozenset[str | None]] = MappingProxyType(
    {
        row.protocol: frozenset({None} if row.is_chat else {one.name for one in row.endpoint_types})
        for row in _ROWS
    }
)
# The protocols that a channel may support (running.md: Configuration), and those of chat endpoints.
PROTOCOLS = tuple(row.protocol for row in _ROWS if row.channel_protocol("") == row.protocol)
CHAT_PROTOCOLS = tuple(row.protocol for row in _ROWS if row.is_chat)
PUBLIC_NAMES: Mapping[str, str] = MappingProxyType({row.protocol: row.public_name for row in _ROWS})
# A row's `unit_type`, by its protocol; none for those billed by tokens.
UNIT_TYPES: Mapping[str, str] = MappingProxyType(
    {row.protocol: row.unit.name for row in _ROWS if row.unit is not None}
)
DETAIL_KINDS: Mapping[str, str] = MappingProxyType(
    {unit.name: unit.kind for unit in family.UNITS if unit.kind is not None}
)
ENDPOINT_TYPES: Mapping[str, family.EndpointType] = MappingProxyType(
    {one.name: one for row in _ROWS for one in row.endpoint_types}
)

TOKEN_PRICES: tuple[family.TokenPrice, ...] = get_args(family.TokenPrice)
UNIT_PRICES: tuple[family.UnitPrice, ...] = get_args(family.UnitPrice)
TOKEN_PART_PRICES: tuple[family.TokenPartPrice, ...] = get_args(family.TokenPartPrice)
EACH_PRICES: tuple[family.EachPrice, ...] = get_args(family.EachPrice)
SERVICE_TIERS: tuple[family.ServiceTier, ...] = get_args(family.ServiceTier)
# Tiers that cost more than the standard one: a request needs a price for them.
DEARER_TIERS: tuple[family.ServiceTier, ...] = ("priority", "fast", "ultrafast")
# A callable chat model has each of these.
CHAT_PRICES: tuple[family.TokenPrice, ...] = ("input", "output")
