"""What a configuration file says, as frozen dataclasses (contract §2).

Made by `load.py` only; channels and models are in `channels/registry.py`. A secret is never part
of a `repr`, so these may be logged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Literal, get_args

from actors.media_store.spec import BucketSpec
from channels.registry import Registry
from gw.config.faults import Caution

# What of a chat request its hold covers: the conversation alone, as the specification says, or all
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
    tls: Certificate | None  # of the public listener; None: plain HTTP
    public_url: str  # how clients reach this gateway; empty: as their request says
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
