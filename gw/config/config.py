"""The content of a configuration file, as frozen dataclasses (contract §2).

Created only by `load.py`; channels and models are in `channels/registry.py`. Secrets are excluded
from every `repr`, so these may be logged.
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
from metrics.log_redaction import hide

# The part of a chat request covered by its hold: the messages, as in the specification, or the
# whole body, with tools, instructions and schemas.
Precharge = Literal["messages", "whole_body"]
PRECHARGES: tuple[Precharge, ...] = get_args(Precharge)

KB_STORE_KINDS = ("local", "s3")


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An address to listen on. An IPv6 host has no brackets, port 0 means any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate of the public listener: two PEM files, the whole chain and its key."""

    chain: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The timeouts of upstreams, in seconds (spec: Limits)."""

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
    """The polling of asynchronous tasks.

    In seconds: the first pause, the factor of each next one, the longest; concurrent polls of a
    process; when another process takes a poll over; when a task is abandoned; how long the lists of
    upstreams are cached.
    """

    poll_first: float
    poll_factor: Decimal
    poll_max: float
    poll_concurrency: int
    lease: float
    deadline: float
    catalog_seconds: float


@dataclass(frozen=True, slots=True)
class MediaStoreSpec:
    """The storage of copies of results, if any: `path` of a folder, or a bucket."""

    kind: Literal["none", "local", "s3"]
    path: Path  # under `data_dir`, unless it is absolute
    bytes_max: int  # of all files in the folder; the oldest are deleted
    file_bytes_max: int  # a larger result stays at its upstream
    keep_days: int
    concurrency: int  # concurrent copies of a process …
    bytes_per_second: int  # … and their total rate; 0: unlimited
    bucket: BucketSpec


@dataclass(frozen=True, slots=True)
class KbStore:
    """The storage of knowledge bases' source documents: a folder below `data_dir`, or a bucket."""

    kind: str  # one of KB_STORE_KINDS
    path: str
    link_seconds: int  # validity of a link
    max_source_mb: int
    bucket: BucketSpec


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Settings of the agents of every account.

    The figures bound the knowledge put into a call: its pages, the characters of each, and of all.
    """

    default_model: str  # id or alias of a chat model; empty: there is none
    kb_pages: int
    kb_page_chars: int
    kb_chars: int


@dataclass(frozen=True, slots=True)
class Config:
    """One whole configuration, free of faults, paths absolute, units as named."""

    listen: ListenAddress
    admin_listen: ListenAddress
    admin_hosts: tuple[str, ...]  # public names under which metrics are served, in lower case
    console_listen: ListenAddress | None  # None: no console
    console_url: str  # public URL of the console; empty: its listening address
    tls: Certificate | None  # of the public listener and the console's; None: plain HTTP
    cors_origins: tuple[str, ...]  # pages that may read responses; `*`: any
    public_url: str  # public URL of the API; empty: taken from requests
    data_dir: Path
    database_url: str = field(repr=False)  # empty: the embedded database under data_dir
    redis_url: str = field(repr=False)  # empty: shared state stays in this process
    secret: str = field(repr=False)  # empty: generated once under data_dir
    previous_secret: str = field(repr=False)  # empty: none; accepted during a rotation
    credits_per_usd: Decimal
    drain_seconds: float
    keep_alive_seconds: float
    keep_alive_before_first_event: bool
    precharge: Precharge
    worker_silence_seconds: float  # of one of several processes, until its parent replaces it
    shed_delay_ms: int
    max_body_bytes: int
    max_bodies_bytes: int
    max_answers_bytes: int
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
    cautions: tuple[Caution, ...] = ()  # settings that are allowed and probably mistakes

    @property
    def kb_folder(self) -> Path:
        """The folder of source documents."""
        return self.data_dir / self.kb_store.path


# The effects of a reload: differences, those that wait for a restart, and suspicious ones.
#
# A reload replaces the settings read by each call; those passed to listeners, pools and engines at
# their creation stay until the process is restarted.

# Settings that a reload applies, or that have no effect.
APPLIED = frozenset(
    {
        "agents",
        "cautions",
        "drain_seconds",
        "keep_alive_before_first_event",
        "keep_alive_seconds",
        "ledger_retention_months",
        "log_level",
        "registry",
        "retention_months",
        "source",
        "tls",  # the files; `needing_restart` checks whether TLS is switched on or off
        "translations",
    }
)
# Keys of the file whose unit differs from that of the value.
_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "max_body_bytes": "max_body_mb",
        "max_bodies_bytes": "max_bodies_mb",
        "max_answers_bytes": "max_answers_mb",
        "idempotency_max_bytes": "idempotency_max_kb",
    }
)

# A larger factor is regarded as a wrong decimal point or unit.
PRICE_FACTOR_MAX = 10
# Differences in the log line of a reload; a list of prices has thousands.
CHANGES_MAX = 100


def check_prices(running: Config, wanted: Config) -> None:
    """Raise ConfigFaults for prices that move by more than `PRICE_FACTOR_MAX`, or from or to 0."""
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
    """Return at most `CHANGES_MAX` differences for the log: names, with values only of prices."""
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
    """Yield the names of differences; values may be keys, or addresses with keys."""
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
    """Return the changed keys that need a restart of the process."""
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
    """The current configuration, with its registry and redactor; replaced whole by a reload.

    A call reads its settings once at its start; nothing changes during a call.
    """

    def __init__(self, config: Config) -> None:
        self.registry = config.registry
        self.swap(config)
        hide(lambda text: self.redactor.secrets(text))

    def __repr__(self) -> str:
        registry = self.registry
        return f"<LiveConfig {len(registry.channels)} channels {len(registry.models)} models>"

    def swap(self, config: Config) -> None:
        """Replace the configuration: its channels and models.

        The redacted texts of the previous one stay redacted, because its calls may be under way.
        """
        before, self.registry = self.registry, config.registry
        self.config = config
        channels = [*config.registry.channels.values(), *before.channels.values()]
        self.redactor = Redactor(channels)

    def redact(self, text: str) -> str:
        """Return a message without keys and hosts of the current channels."""
        return self.redactor.text(text)
