"""A family of endpoints: the members of its row, and what its models are billed by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

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
    """The body of an error (reference 1.7), encoded in `gw/errors.py`."""

    CHAT = auto()  # the first shape of reference 1.7, also outside all families
    MESSAGES = auto()
    GEMINI = auto()
    IMAGES = auto()  # the first one with `param`


@dataclass(frozen=True, slots=True)
class Unit:
    """What a call is billed by instead of tokens: a row's `unit_type`, and the `kind` of its
    detail view (reference 6.2, 6.4)."""

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
# In the order of the call log's documentation.
UNITS = (IMAGE, VIDEO, MUSIC, AUDIO, AVATAR, VOICE, SEARCH, TRANSCRIPT)


@dataclass(frozen=True, slots=True)
class EndpointType:
    """A dedicated endpoint, named after its path (reference 4.2).

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
    `wires`: the dialects of channels for it (`channels/media`), of a chat family its hostings
    (`channels/dialects/hosting.py`), the default first; empty if there is only one. `by_model`:
    prefixes of model ids that need channels of another protocol, and that protocol; an empty one:
    its channels say that they support the other. `tools_over`: the protocol used for built-in
    tools, if it is another one (reference 2.7). `end_users`: the
    members of a body that may name the end user, the first that does (reference 11.1).
    """

    protocol: str
    dialect: str = ""
    unit: Unit | None = None
    endpoint_types: tuple[EndpointType, ...] = ()
    error_shape: ErrorShape = ErrorShape.CHAT
    shown_as: str = ""
    streams: bool = False
    is_async: bool = False
    wires: tuple[str, ...] = ()
    by_model: tuple[tuple[str, str], ...] = ()
    tools_over: str | None = None
    end_users: tuple[str, ...] = ("user",)

    @property
    def public_name(self) -> str:
        """Its name for clients (reference 4.2)."""
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
