"""The content of a configuration file, as frozen dataclasses (contract §2).

Made by `load.py` only; channels and models are in `channels/registry.py`. A secret is never part
of a `repr`, so these may be logged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from actors.media_store.links import BucketSpec
from channels.redaction import Redactor
from channels.registry import ModelSpec, Registry
from gw.config.readers import Caution, ConfigFaults, Fault
from metrics.logs import hide

# What of a chat request its hold covers: the conversation alone, as in the specification, or all
# of the body, with tools, instructions and schemas.
Precharge = Literal["messages", "whole_body"]
PRECHARGES: tuple[Precharge, ...] = get_args(Precharge)

KB_STORE_KINDS = ("local", "s3")


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen. An IPv6 host is kept without brackets, port 0 means any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Certificate:
    """What the public listener shows its clients: two PEM files, the whole chain and its key."""

    chain: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait for an upstream, in seconds (spec: Limits)."""

    connect: float
    chat: float
    image_attempt: float
    image_total: float
    video_submit: float
    transcript: float
    speech: float
    voice: float
    task_poll: float


@dataclass(frozen=True, slots=True)
class Tasks:
    """How asynchronous work is polled, in seconds: the first pause, each next one so many times the
    last, the longest; polls at once in a process; after how long another takes a poll over; after
    how long a task is given up; how long what upstreams list is remembered."""

    poll_first: float
    poll_factor: Decimal
    poll_max: float
    poll_concurrency: int
    lease: float
    deadline: float
    catalog_seconds: float


@dataclass(frozen=True, slots=True)
class MediaStoreSpec:
    """Where copies of results are kept, if anywhere: `path` of a folder, or a bucket."""

    kind: Literal["none", "local", "s3"]
    path: Path  # under `data_dir`, unless it is absolute
    bytes_max: int  # of all in the folder; the oldest make room
    file_bytes_max: int  # a larger result stays with its upstream
    keep_days: int
    concurrency: int  # copies at once in a process …
    bytes_per_second: int  # … and all of them together; 0: as fast as they come
    bucket: BucketSpec


@dataclass(frozen=True, slots=True)
class KbStore:
    """Where source documents of knowledge bases are: a folder below `data_dir`, or a bucket."""

    kind: str  # one of KB_STORE_KINDS
    path: str
    link_seconds: int  # how long a link to one is good
    max_source_mb: int
    bucket: BucketSpec


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What holds for agents of every account. The figures bound what of knowledge bases is put
    into a call: so many pages, of each so many characters, and of all together."""

    default_model: str  # id or alias of a chat model; empty: there is none
    kb_pages: int
    kb_page_chars: int
    kb_chars: int


@dataclass(frozen=True, slots=True)
class Config:
    """One whole configuration, free of faults, paths absolute, units as named."""

    listen: ListenAddress
    admin_listen: ListenAddress
    admin_hosts: tuple[str, ...]  # public names by which metrics are asked for, in lower case
    console_listen: ListenAddress | None  # None: there is no console
    console_url: str  # how people reach the console; empty: by the address that it listens on
    tls: Certificate | None  # of the public listener and the console's; None: plain HTTP
    cors_origins: tuple[str, ...]  # pages that may read responses; `*`: any
    public_url: str  # how clients reach this gateway; empty: from their requests
    data_dir: Path
    database_url: str = field(repr=False)  # empty: the embedded database under data_dir
    redis_url: str = field(repr=False)  # empty: shared state stays in this process
    secret: str = field(repr=False)  # empty: generated once under data_dir
    previous_secret: str = field(repr=False)  # empty: none; accepted while keys are stored anew
    credits_per_usd: Decimal
    drain_seconds: float
    precharge: Precharge
    worker_silence_seconds: float  # of one of several processes, before its parent replaces it
    shed_delay_ms: int
    max_body_bytes: int
    max_bodies_bytes: int
    translations: frozenset[str]
    messages_versions: tuple[str, ...]
    idempotency_max_bytes: int
    retention_months: int | None  # of the call log, beside the current one; None keeps everything
    ledger_retention_months: int | None  # of the ledger's entries, likewise
    timeouts: Timeouts
    tasks: Tasks
    media_store: MediaStoreSpec
    kb_store: KbStore
    agents: AgentSettings
    registry: Registry
    log_level: str  # a key of metrics.logs.LEVELS
    source: Path  # the file this was read from
    cautions: tuple[Caution, ...] = ()  # what is allowed and hardly meant

    @property
    def kb_folder(self) -> Path:
        """The folder of source documents."""
        return self.data_dir / self.kb_store.path


# What a reload changes: what differs, what waits for a restart, and what is hardly meant.
#
# A reload takes what is read again for each call; what was handed to listeners, pools and engines
# when they were made stays until the process is restarted.

# What a reload does put in force, or what changes nothing.
APPLIED = frozenset(
    {
        "agents",
        "cautions",
        "drain_seconds",
        "ledger_retention_months",
        "log_level",
        "registry",
        "retention_months",
        "source",
        "tls",  # the files; switching it on or off is looked at below
        "translations",
    }
)
# Where the file's key has another unit than the value that was made of it.
_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "max_body_bytes": "max_body_mb",
        "max_bodies_bytes": "max_bodies_mb",
        "idempotency_max_bytes": "idempotency_max_kb",
    }
)

# A price that moves by more is taken for a slip of the decimal point, or of the unit.
PRICE_FACTOR_MAX = 10
# How many differences the line of a reload names; a list of prices has thousands.
CHANGES_MAX = 100


def check_prices(running: Config, wanted: Config) -> None:
    """Raise ConfigFaults for prices that move by more than `PRICE_FACTOR_MAX`, or to or from 0."""
    faults = []
    models = running.registry.models
    for index, model in enumerate(wanted.registry.models.values()):
        before = _prices(models[model.id]) if model.id in models else {}
        for name, after in _prices(model).items():
            least, most = sorted((before.get(name, after), after))
            if most > least * PRICE_FACTOR_MAX:
                found = f"{after.normalize():f} USD with the multiplier"
                was = f"{before[name].normalize():f}"
                allowed = f"at most {PRICE_FACTOR_MAX} times more or less than {was} at a reload"
                path = f"models[{index}].price.{name}"
                hint = "a restart puts it in force"
                faults.append(Fault(str(wanted.source), path, found, allowed, hint))
    if faults:
        raise ConfigFaults(faults)


def changes(running: Config, wanted: Config) -> list[str]:
    """What differs, for the log: names, and values of prices alone, at most `CHANGES_MAX`."""
    found = [
        *_of_sections("channel", running.registry.channels, wanted.registry.channels),
        *_of_sections("model", running.registry.models, wanted.registry.models),
        *(
            _KEYS.get(field.name, field.name)
            for field in fields(Config)
            if field.name not in {"cautions", "registry", "source"}
            and getattr(running, field.name) != getattr(wanted, field.name)
        ),
    ]
    rest = len(found) - CHANGES_MAX
    return found if rest <= 0 else [*found[:CHANGES_MAX], f"and {rest} more"]


def _of_sections(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*before, *after]):
        if name not in before:
            yield f"{kind} {name}: added"
        elif name not in after:
            yield f"{kind} {name}: removed"
        elif before[name] != after[name]:
            yield f"{kind} {name}: {', '.join(_of_members(before[name], after[name]))}"


def _of_members(before: Any, after: Any) -> Iterator[str]:
    """Names of what differs; what it is may be a key, or an address with one."""
    for one in fields(before):
        if not one.init or getattr(before, one.name) == getattr(after, one.name):
            continue
        if one.name != "price":
            yield one.name
            continue
        mine, theirs = before.price.members(), after.price.members()
        for name in dict.fromkeys([*mine, *theirs]):
            if mine.get(name) != theirs.get(name):
                yield f"price.{name} {mine.get(name)} to {theirs.get(name)}"


def _prices(model: ModelSpec) -> dict[str, Decimal]:
    members = model.price.members()
    members.pop("area_threshold_mp", None)  # no price
    for bound in model.bindings:
        if bound.price is not None:
            own = bound.price.over(model.price).members()
            members |= {f"{name} on {bound.channel_id}": own[name] for name in own}
    return {name: value * model.multiplier for name, value in members.items()}


def needing_restart(running: Config, wanted: Config) -> list[str]:
    """The keys in which a file differs from what a process was started with, and must wait."""
    keys: list[str] = []
    for one in fields(Config):
        before, after = getattr(running, one.name), getattr(wanted, one.name)
        if one.name == "tls" and (before is None) != (after is None):
            keys.append("tls")
        if one.name in APPLIED or before == after:
            continue
        if isinstance(before, KbStore | Tasks | Timeouts):
            keys += [
                f"{one.name}.{part.name}"
                for part in fields(before)
                if getattr(before, part.name) != getattr(after, part.name)
            ]
        else:
            keys.append(_KEYS.get(one.name, one.name))
    return keys


class LiveConfig:
    """The configuration in force, with its registry and redactor: replaced whole on a reload.

    A call reads what it needs at its start and keeps it; nothing here changes under a running call.
    """

    def __init__(self, config: Config) -> None:
        self.registry = config.registry
        self.swap(config)
        hide(lambda text: self.redactor.secrets(text))

    def __repr__(self) -> str:
        registry = self.registry
        return f"<LiveConfig {len(registry.channels)} channels {len(registry.models)} models>"

    def swap(self, config: Config) -> None:
        """Put another configuration in force: its channels and models.

        What the one before must not show stays hidden: its calls may be under way.
        """
        before, self.registry = self.registry, config.registry
        self.config = config
        channels = [*config.registry.channels.values(), *before.channels.values()]
        self.redactor = Redactor(channels)

    def redact(self, text: str) -> str:
        """A message without what the channels in force must not show."""
        return self.redactor.text(text)
