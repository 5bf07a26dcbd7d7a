"""The content of a configuration file, as frozen dataclasses (running.md: Configuration).

Each field that is a key of the file declares it (`keys.py`); `channels.py` and `models.py` declare
those of channels and models. Made only by `load.py`. Secrets are excluded from every `repr`, so
these may be logged.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Literal, get_args

from actors.media_store.specs import BucketSpec
from channels.registry import Registry
from channels.translation.paths import SETTINGS
from gw.config import addresses, mappings, readers
from gw.config.faults import Caution
from gw.config.keys import key, secret_text, section
from gw.config.redis_url import redis_url
from metrics.logs import LEVELS

KIB, MIB, GIB = 1024, 1024 * 1024, 1024 * 1024 * 1024

# The part of a chat request covered by its hold: the messages (reference 5.3), or the
# whole body, with tools, instructions and schemas.
Precharge = Literal["messages", "whole_body"]
PRECHARGES: tuple[Precharge, ...] = get_args(Precharge)

StoreKind = Literal["none", "local", "s3"]
STORE_KINDS: tuple[StoreKind, ...] = get_args(StoreKind)

EndUserMode = Literal["plain", "digest", "off"]
END_USER_MODES: tuple[EndUserMode, ...] = get_args(EndUserMode)

# It encrypts every stored key and must not be guessable, as words are.
SECRET_MIN = 16
# The placeholder of a secret in ops/kubernetes/secret.yaml.
SECRET_PLACEHOLDERS = frozenset({"set this to 32 bytes in hex"})


def _megabytes(most: int, *, above_zero: bool = True) -> readers.Reader[int]:
    return readers.binary_size("MB", MIB, most=most, above_zero=above_zero)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """A certificate: two PEM files, or neither."""

    certificate: str = key(readers.file(), "")
    """The whole chain."""
    private_key: str = key(readers.file(), "", name="key")
    """Its key, without a password."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate of the public listener: the whole chain and its key."""

    chain: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The timeouts of upstreams, in seconds (reference 10.5)."""

    connect: float = key(readers.seconds(), 5.0)
    """Until a connection is open."""
    chat: float = key(readers.seconds(), 180.0)
    """Of a chat call."""
    image_attempt: float = key(readers.seconds(), 240.0)
    """Of one channel's image."""
    image_total: float = key(readers.seconds(), 280.0)
    """Of an image on all channels."""
    video_submit: float = key(readers.seconds(), 60.0)
    """Of the submission of a film, a song or an avatar; making it takes longer."""
    transcript: float = key(readers.seconds(), 55.0)
    """Of a script."""
    speech: float = key(readers.seconds(), 60.0)
    """Of speech."""
    voice: float = key(readers.seconds(), 60.0)
    """Of a cloned voice."""
    embeddings: float = key(readers.seconds(), 30.0)
    """Of embeddings, on all channels."""
    decisions: float = key(readers.seconds(), 60.0)
    """Of decisions, on all channels."""
    task_poll: float = key(readers.seconds(), 10.0)
    """Of one poll of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """The polling of films, songs, speech and avatars that are made after the response."""

    poll_first: float = key(readers.seconds(), 2.0)
    """Seconds from the submission to the first poll."""
    poll_factor: Decimal = key(readers.decimal("a factor", least=1, most=1000), Decimal("1.5"))
    """Each pause is the last one times this."""
    poll_max: float = key(readers.seconds(), 15.0)
    """The longest pause, in seconds; 20 % more or less by chance."""
    poll_concurrency: int = key(readers.whole(1, 10_000), 32)
    """Concurrent polls of a process."""
    lease: float = key(readers.seconds(), 15.0)
    """Seconds after which another process takes over a poll that was never finished."""
    deadline: float = key(readers.seconds(most=366 * 86_400), 86_400.0)
    """Seconds from the submission after which a task is given up and refunded."""
    catalog_seconds: float = key(readers.seconds(), 600.0)
    """How long lists of templates, avatars and voices are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The bucket of a store whose kind is s3, which needs `pip install 'model-gateway[s3]'`."""

    endpoint: str = key(addresses.public_url(), "")
    """The address of the service; with `kind: s3`."""
    region: str = key(readers.text(), "auto")
    """The region of the bucket."""
    bucket_name: str = key(readers.text(may_be_empty=True), "", name="bucket")
    """The bucket; with `kind: s3`."""
    prefix: str = key(readers.text(may_be_empty=True), "")
    """What the names of its objects begin with."""
    access_key: str = secret_text("the bucket's key")
    """The id of its key; with `kind: s3`."""
    secret_key: str = secret_text("the bucket's secret")
    """Its key; with `kind: s3`."""

    @property
    def bucket(self) -> BucketSpec:
        """The bucket, for its client."""
        return BucketSpec(
            endpoint=self.endpoint,
            region=self.region,
            bucket=self.bucket_name,
            prefix=self.prefix,
            access_key=self.access_key,
            secret_key=self.secret_key,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaStoreSpec(Store):
    """The storage of copies of results, if any: a folder, or a bucket."""

    kind: StoreKind = key(readers.choice(STORE_KINDS), "none")
    """`none`: clients get the upstream's own links; `local`: a folder; `s3`: a bucket."""
    path: Path = key(readers.folder(), Path("media"))
    """The folder, under `data_dir` unless it is absolute; several hosts share one."""
    bytes_max: int = key(
        readers.binary_size("GB", GIB, most=1024 * 1024, above_zero=True), 50 * GIB, name="max_gb"
    )
    """Of all files in the folder; the oldest copies make room."""
    file_bytes_max: int = key(_megabytes(64 * 1024), 2048 * MIB, name="max_file_mb")
    """A larger result stays with its upstream."""
    keep_days: int = key(readers.whole(1, 3650), 30)
    """Days after which a copy is dropped."""
    concurrency: int = key(readers.whole(1, 64), 4)
    """Concurrent copies of a process, half of them of one account."""
    bytes_per_second: int = key(_megabytes(100_000, above_zero=False), 0, name="mb_per_second")
    """The rate of all of them together; 0: unlimited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KbStore(Store):
    """The storage of knowledge bases' source documents: a folder, or a bucket."""

    kind: StoreKind = key(readers.choice(STORE_KINDS[1:]), "local")
    """`local`: files of this machine (of several hosts: a folder they share); `s3`: a bucket."""
    path: Path = key(readers.folder(), Path("kb"))
    """The folder, below `data_dir`."""
    link_seconds: int = key(readers.whole(1, 3600), 3600)
    """How long a link to a document is valid."""
    max_source_mb: int = key(readers.whole(1, 1024), 64)
    """A larger document fails the import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsSpec:
    """Settings of the agents of every account.

    The figures bound the knowledge put into a call.
    """

    default_model: str = key(readers.text(may_be_empty=True), "")
    """Id or alias of a chat model, for agents that have none where their account has none."""
    kb_pages: int = key(readers.whole(1, 50), 5)
    """Pages of knowledge bases that a call is given at most."""
    kb_page_chars: int = key(readers.whole(1, 100_000), 4000)
    """Characters of each page."""
    kb_chars: int = key(readers.whole(1, 1_000_000), 12_000)
    """Characters of all pages together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetsSpec:
    """What becomes of budgets' sums, the same on all hosts."""

    run_days: float = key(readers.days(), 30.0, is_live=True)
    """Days after its last call at which the ceiling of a run is forgotten, with what it spent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsSpec:
    """What becomes of events, the same on all hosts."""

    keep_days: float = key(readers.days(), 30.0, is_live=True)
    """Days after which an event is deleted, unless a webhook has still to deliver it."""
    call_settled: bool = key(readers.flag(), False, is_live=True)
    """Whether every call writes a `call.settled`; else only while a webhook names that type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionSpec:
    """For whom calls are made, as their clients say: what of it is stored."""

    end_user: EndUserMode = key(readers.choice(END_USER_MODES), "plain")
    """`plain`: names as they are; `digest`: a keyed digest instead; `off`: none, and no budget of
    end users matches."""
    distinct_per_day: int = key(readers.whole(1, 1_000_000), 10_000)
    """Of end users, sessions, runs and each label's key so many values of an account are stored in
    a day of UTC, the first; later ones as `other`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhooksSpec:
    """How events are sent to webhooks."""

    allow: tuple[str, ...] = key(
        mappings.distinct(addresses.network_or_name(), "a list of networks and host names"), ()
    )
    """Networks, addresses and host names that events may be sent to though they are not public, or
    without TLS: `[10.1.0.0/16, hooks.internal]`. All others: global addresses, over https."""
    retry_seconds: tuple[float, ...] = key(
        mappings.at_most(
            50, mappings.listing(readers.seconds(most=30 * 86_400), "a list of seconds")
        ),
        (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0),
    )
    """The pauses after failed attempts, 20 % more or less by chance; after the last one the
    delivery is dead."""
    timeout: float = key(readers.seconds(most=300), 15.0)
    """Seconds of an attempt."""
    queue: int = key(readers.whole(1, 10_000_000), 100_000)
    """Deliveries pending of one webhook; above them events wait where they are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One whole configuration, free of faults, paths absolute, units as named."""

    listen: addresses.ListenAddress = key(
        addresses.listen_address(), addresses.ListenAddress("127.0.0.1", 8080)
    )
    """The public address; `[::1]:8080` needs quotes, port 0 takes any free one. The gateway that
    takes this one's place may listen here already."""
    admin_listen: addresses.ListenAddress = key(
        addresses.listen_address(), addresses.ListenAddress("127.0.0.1", 9090)
    )
    """The address of metrics, probes and the admin API: never public and never shared, so that a
    restart without a gap needs another one."""
    admin_hosts: tuple[str, ...] = key(
        mappings.distinct(addresses.host_name(), "a list of host names"), ()
    )
    """Names by which Prometheus asks for `/metrics`, where it uses neither an address nor a name
    that is no public one (without dots, `.local`, `.internal`, `.svc`, …)."""
    console_listen: addresses.ListenAddress | None = key(
        readers.or_blank(addresses.listen_address()), None
    )
    """The address of the pages for operators and account owners; empty: off. `gw console link`
    makes links that sign in."""
    console_url: str = key(addresses.public_url(), "")
    """How people reach these pages, as behind a proxy; empty: by `console_listen`."""
    tls: Certificate | None = section(TlsFiles, is_live=True)
    """The certificate of the public address, the console's and `admin_listen`; empty: plain HTTP.
    Its files are read again on SIGHUP, for connections made from then on; to switch TLS on or off
    takes a restart."""
    cors_origins: tuple[str, ...] = key(
        mappings.distinct(addresses.origin(), "a list of origins, or of *"), ()
    )
    """Pages that may call from a browser; `*`: any."""
    public_url: str = key(addresses.public_url(), "")
    """How clients reach this gateway, for links to what it serves itself; empty: scheme and host
    of the request."""
    describe: bool = key(readers.flag(), True)
    """Whether `GET /openapi.json` and its page in the console are served, the reference of the
    public API."""
    data_dir: Path = key(readers.folder(), Path("./var"))
    """The folder of its own files. Relative paths start at the folder of the configuration."""
    database_url: str = key(addresses.engine_url(["postgresql", "postgres"]), "", is_secret=True)
    """The database; empty: an embedded PostgreSQL under `data_dir`, closed to all but the gateway
    (`data_dir/postgres.password`)."""
    redis_url: str = key(redis_url(), "", is_secret=True)
    """Shares the limits of accounts among all that name the same one, also gateways started
    separately on one host; empty: among the processes of one `gw serve`. It may be empty, restarted
    or away at any time; `?socket_timeout=0.2` gives it more than 0.05 seconds to respond."""
    secret: str = key(
        readers.text(
            f"a secret of {SECRET_MIN} characters or more, or empty for one that is made",
            may_be_empty=True,
            secret=True,
            least=SECRET_MIN,
            placeholders=SECRET_PLACEHOLDERS,
        ),
        "",
        is_secret=True,
    )
    """Encrypts stored keys (`openssl rand -hex 32`); empty: made once under `data_dir`."""
    previous_secret: str = key(
        readers.text(
            "the secret before this one, or empty", may_be_empty=True, secret=True, least=SECRET_MIN
        ),
        "",
        is_secret=True,
    )
    """What `secret` was, while it is changed ([rotation](running.md#changing-the-secret))."""
    credits_per_usd: Decimal = key(
        readers.decimal("credits", most=1_000_000_000, above_zero=True, quoted=True), Decimal(1000)
    )
    """Credits that clients see for one USD."""
    drain_seconds: float = key(readers.seconds(above_zero=False), 30.0, is_live=True)
    """How long a stopping process lets calls in flight finish; then they are cut and settled. More
    than `timeouts.chat` where nothing stops it earlier: 185, as in the shipped files."""
    precharge: Precharge = key(readers.choice(PRECHARGES), "messages")
    """What the input of a chat call is held for: `messages` (or `input`, `contents`) alone, or
    `whole_body`, with tools and instructions, too."""
    worker_silence_seconds: float = key(readers.seconds(), 10.0)
    """With `--processes N`: one whose loop has been silent for so long is killed and replaced. Time
    in which it waits for a CPU does not count."""
    shed_delay_ms: int = key(readers.whole(least=0, most=10_000), 20)
    """When work waits longer than this for a quarter of a second, calls are refused by their head
    (503 with `Retry-After`, no row) until it does not; 0: never."""
    keep_alive_seconds: float = key(readers.seconds(above_zero=False), 15.0, is_live=True)
    """A stream whose upstream is silent for so long sends its client a comment (messages: `ping`);
    0: never."""
    keep_alive_before_first_event: bool = key(readers.flag(), False, is_live=True)
    """Also before the first event: the head is sent then, after which no other channel is tried and
    an error has no status ([the cost](reference/chat.md#26-streams))."""
    max_body_bytes: int = key(_megabytes(1024), 64 * MIB, name="max_body_mb")
    """Of one request's body."""
    max_bodies_bytes: int = key(_megabytes(1024 * 1024), 512 * MIB, name="max_bodies_mb")
    """Of all bodies over 64 KB that a process holds at once, at least one; an account has half."""
    max_answers_bytes: int = key(_megabytes(1024 * 1024), 256 * MIB, name="max_answers_mb")
    """Of all whole responses over 256 KB, until their clients have read them, at least one; the one
    too many is a 503 with `Retry-After: 1`."""
    translations: frozenset[str] = key(
        mappings.names(SETTINGS), frozenset({"chat_to_messages", "chat_to_native"}), is_live=True
    )
    """Which protocols are translated; [what each loses](reference/translations.md)."""
    translate: frozenset[str] = key(mappings.names(SETTINGS), frozenset(), is_live=True)
    """Translations beside those of `translations`."""
    messages_versions: tuple[str, ...] = key(
        mappings.distinct(readers.header_text("a version"), "a list of versions", least=1),
        ("2023-06-01", "2026-10-21"),
    )
    """The versions of messages that are served."""
    # A stored response is written by the ledger's connection, for which all calls wait meanwhile.
    idempotency_max_bytes: int = key(
        readers.binary_size("kB", KIB, most=16_384, above_zero=False),
        1024 * KIB,
        name="idempotency_max_kb",
    )
    """Larger responses are not kept for a replay."""
    log_level: str = key(readers.or_empty(readers.choice(tuple(LEVELS))), "", is_live=True)
    """Empty: `$GW_LOG_LEVEL`, then `info`."""
    retention_months: int | None = key(readers.optional(readers.whole(1, 1200)), None, is_live=True)
    """Months of the call log kept beside the current one; null: all. Whole months are dropped, and
    tasks that ended in them (not ready avatars, nor what still has a copy); balances stay."""
    ledger_retention_months: int | None = key(
        readers.optional(readers.whole(2, 1200)), None, is_live=True
    )
    """Months of the ledger's entries, more than `retention_months`; null: all. A month goes once
    `gw ledger verify` has written its checkpoint: set what your bookkeeping asks for (24: two years
    beside the current month)."""
    timeouts: Timeouts = section(Timeouts)
    """The timeouts of upstreams, in seconds."""
    tasks: Tasks = section(Tasks)
    """Films, songs, speech and avatars that are made after the response."""
    media_store: MediaStoreSpec = section(MediaStoreSpec)
    """Copies of films, songs and speech, for links that outlive their upstream's."""
    kb_store: KbStore = section(KbStore)
    """Source documents of knowledge bases."""
    agents: AgentsSpec = section(AgentsSpec, is_live=True)
    """What holds for agents of every account."""
    budgets: BudgetsSpec = section(BudgetsSpec, is_live=True)
    """Limits on what parts of accounts' calls may cost ([budgets](reference/credit.md))."""
    events: EventsSpec = section(EventsSpec, is_live=True)
    """Events: accounts, keys, budgets, tasks and calls, for pulls and webhooks."""
    attribution: AttributionSpec = section(AttributionSpec, is_live=True)
    """For whom calls are made ([attribution](reference/credit.md)), as their clients say."""
    webhooks: WebhooksSpec = section(WebhooksSpec, is_live=True)
    """Addresses that events are sent to (`gw webhook create`)."""
    registry: Registry
    source: Path  # the file this was read from
    cautions: tuple[Caution, ...] = ()  # settings that are allowed and probably mistakes

    @property
    def kb_folder(self) -> Path:
        """The folder of source documents."""
        return self.data_dir / self.kb_store.path
