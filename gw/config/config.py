"""The content of a configuration file, as frozen dataclasses (contract §2).

Created only by `builder.py`; channels and models are in `channels/registry.py`. Secrets are
excluded from every `repr`, so these may be logged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Literal, get_args

from actors.media_store.specs import BucketSpec
from channels.registry import Registry
from gw.config.faults import Caution

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
class AgentsSpec:
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
    agents: AgentsSpec
    registry: Registry
    log_level: str  # a key of metrics.logs.LEVELS
    source: Path  # the file this was read from
    cautions: tuple[Caution, ...] = ()  # settings that are allowed and probably mistakes

    @property
    def kb_folder(self) -> Path:
        """The folder of source documents."""
        return self.data_dir / self.kb_store.path
