"""What another gateway's configuration becomes: channels, models, accounts; what is left, and why.

A plan is made from its source alone and changes nothing. Keys of upstreams are names of the
source's variables, or secrets, which a configuration must not contain in clear text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from urllib.parse import urlsplit

from channels.families import CHAT_PRICES, ENDPOINT_TYPES
from channels.kinds import KINDS
from channels.prices import PriceSpec
from channels.registry import Binding, Registry
from gw.config.upstream import PROVED
from gw.price_list.reading import PriceRow

# For variables that are not set while a result is parsed; valid as a key and as an address.
UNSET = "https://unset.example"
UNSET_WORD = "unset"
# What the names of this gateway's own variables begin with; its secret is one of them.
OWN_VARIABLES = "GW_"
# Characters of an address that would be, or look like, a variable of a configuration.
_OF_VARIABLES = frozenset("${}")
_NO_NAME = re.compile(r"[^A-Z0-9]+")
_NAME = re.compile(r"[^\s,]{1,200}")
_KEY = re.compile(r"[!-~]{1,4096}", re.ASCII)
_NO_ID = re.compile(r"[^a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class Left:
    """One thing that is not carried over."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class SecretText:
    """A text that the source has in clear."""

    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """A text that the source reads from the environment."""

    name: str


Value = str | SecretText | Variable


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChannel:
    """A channel without what its `kind` implies. Equal ones are one upstream account."""

    kind: str  # empty: a channel of chat at `base_url`
    base_url: Value = ""
    keys: tuple[Value, ...] = ()
    chat_path: str = ""  # the whole path, if not the default
    settings: tuple[tuple[str, Value], ...] = ()  # of which a kind's address depends
    credentials: tuple[tuple[str, Value], ...] = ()  # of kinds that need more than a key
    headers: tuple[tuple[str, Value], ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    priority: int = 1
    max_concurrency: int | None = None

    @property
    def protocols(self) -> tuple[str, ...]:
        """The protocols of its kind."""
        return KINDS[self.kind].protocols if self.kind else ("chat",)

    @property
    def foreign_variable(self) -> str | None:
        """A variable that it reads and that is this gateway's own, which no source may name."""
        named = (*self.settings, *self.credentials, *self.headers)
        values = (self.base_url, *self.keys, *(value for _, value in named))
        names = (value.name for value in values if isinstance(value, Variable))
        return next((name for name in names if name.upper().startswith(OWN_VARIABLES)), None)


@dataclass(slots=True, kw_only=True)
class PlannedModel:
    """A model; `price` is None if neither the source nor the price list has it."""

    id: str
    bindings: list[Binding] = field(default_factory=list)  # to ids of the plan's channels
    price: PriceSpec | None = None
    rows: tuple[PriceRow, ...] = ()  # the rows of the list that the price comes from
    endpoint_type: str | None = None
    context_size: int | None = None
    max_output_tokens: int | None = None
    aliases: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedKey:
    """A key to be created; the source's text has another form."""

    name: str
    models: tuple[str, ...] | None  # by the gateway's ids; None: all
    expires_at: datetime | None
    spend_cap_nano_usd: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAccount:
    """An account with its remaining money. `id` is derived from the source."""

    id: str
    name: str
    balance_nano_usd: int
    is_enabled: bool
    keys: tuple[PlannedKey, ...]

    def with_models(self, registry: Registry) -> PlannedAccount:
        """Return the account with aliases among its keys' models replaced by ids."""
        keys = []
        for key in self.keys:
            names = key.models
            if names is not None:
                found = (registry.resolve(name) for name in names)
                names = tuple(dict.fromkeys(one.id for one in found if one is not None))
            keys.append(replace(key, models=names))
        return replace(self, keys=tuple(keys))


@dataclass(slots=True)
class Plan:
    """Everything found in one source."""

    channels: dict[str, PlannedChannel] = field(default_factory=dict)
    models: dict[str, PlannedModel] = field(default_factory=dict)
    accounts: list[PlannedAccount] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)

    def leave(self, what: str, reason: str) -> None:
        """Record what is not carried over, each once."""
        one = Left(what, reason)
        if one not in self.left:
            self.left.append(one)

    def unset(self) -> dict[str, str]:
        """Return placeholders for the source's variables, which need not be set here."""
        values = [
            value
            for one in self.channels.values()
            for value in (one.base_url, *one.keys, *(header for _, header in one.headers))
        ]
        found = {value.name: UNSET for value in values if isinstance(value, Variable)}
        for one in self.channels.values():
            for _, value in (*one.settings, *one.credentials):
                if isinstance(value, Variable):
                    found.setdefault(value.name, UNSET_WORD)
        return found

    def bind(self, model: PlannedModel, channel: PlannedChannel, upstream: str, name: str) -> None:
        """Let a channel serve a model; `name` becomes the id of a new channel.

        A model has a channel once: another upstream name on the same account needs a channel of its
        own.
        """
        taken = {one.channel_id for one in model.bindings}
        binding_name = None if upstream == model.id else upstream
        for channel_id, known in self.channels.items():
            if known == channel and Binding(channel_id, binding_name) in model.bindings:
                return
        same = [one for one, known in self.channels.items() if known == channel]
        found = next((one for one in same if one not in taken), None)
        if found is None:
            found = free_id(name, self.channels)
            self.channels[found] = channel
        model.bindings.append(Binding(found, binding_name))


def is_name(text: str) -> bool:
    """Whether the text is valid as a model's name."""
    return bool(_NAME.fullmatch(text)) and text.isprintable()


def is_key(text: str) -> bool:
    """Whether the text is valid as a channel's key."""
    return bool(_KEY.fullmatch(text))


def is_address(text: str) -> bool:
    """Whether the text is an address of a channel: of HTTP, with nothing like a variable."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    is_http = parts.scheme in ("http", "https") and bool(parts.hostname)
    return is_http and not _OF_VARIABLES & set(text)


def proved(kind: str) -> bool:
    """Whether channels of this kind authenticate by more than a key."""
    return kind in KINDS and KINDS[kind].auth in PROVED


def free_id(name: str, taken: Mapping[str, object]) -> str:
    """Return a free id of a channel: the name, or the name with a number."""
    wanted = _NO_ID.sub("-", name.lower()).strip("-.") or "channel"
    found, number = wanted, 1
    while found in taken:
        number += 1
        found = f"{wanted}-{number}"
    return found


def variable_name(channel_id: str, what: str) -> str:
    """Return the variable's name for a secret of a channel."""
    return f"GW_{_NO_NAME.sub('_', channel_id.upper())}_{what}"


def without_version(url: str) -> tuple[str, str]:
    """Return `base_url` and the path of chat for an address that `/chat/completions` follows.

    The path is empty if it is the default, /v1/chat/completions after `base_url`.
    """
    parts = urlsplit(url.rstrip("/"))
    if parts.path.endswith("/v1"):
        return url.rstrip("/").removesuffix("/v1"), ""
    return f"{parts.scheme}://{parts.netloc}", f"{parts.path}/chat/completions"


def is_priced(price: PriceSpec | None, endpoint_type: str | None) -> bool:
    """Whether a price has all members that the model's calls need."""
    if price is None:
        return False
    if endpoint_type is None:
        return all(getattr(price, name) is not None for name in CHAT_PRICES)
    units = ENDPOINT_TYPES[endpoint_type].prices
    return not units or any(getattr(price, name) is not None for name in units)
