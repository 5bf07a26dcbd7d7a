"""Every key of the configuration file, with its values, range and default (contract §2).

The page to compare with the contract. A `section` is a nested mapping, REQUIRED means that there is
no default; `relations.py` checks values against each other.
"""

from __future__ import annotations

from decimal import Decimal

from channels.dialects.address import MODEL as MODEL_IN_PATH
from channels.dialects.table import DIALECTS
from channels.families import ENDPOINT_TYPES, FAMILIES, PROTOCOLS
from channels.kinds import KINDS
from channels.registry import (
    BUILTIN_TOOLS,
    CAPABILITIES,
    MAX_TOKENS_PARAMS,
    SYSTEM_TURNS,
    VIDEO_TIERS,
    HealthSpec,
)
from channels.translation.paths import SETTINGS
from gw.config import upstream
from gw.config.addresses import base_url, engine_url, host_name, listen_address, origin, public_url
from gw.config.channels import channel, no_credentials
from gw.config.config import KB_STORE_KINDS, PRECHARGES, ListenAddress
from gw.config.faults import Location
from gw.config.mappings import (
    REQUIRED,
    Key,
    Schema,
    Section,
    choices,
    distinct,
    listing,
    mapping,
    placed,
    section,
)
from gw.config.nodes import Node, Scalar
from gw.config.prices import PRICE, entry_price
from gw.config.readers import (
    Reader,
    binary_size,
    choice,
    decimal,
    file,
    flag,
    folder,
    header_text,
    name_reader,
    optional,
    or_blank,
    seconds,
    text,
    whole,
)
from gw.config.redis_url import redis_url
from metrics.logs import LEVELS

KIB, MIB, GIB = 1024, 1024 * 1024, 1024 * 1024 * 1024
MAX_TOKENS = 1_000_000_000
LAST_SECOND = 253_402_300_799  # of the year 9999

# It encrypts every stored key and must not be guessable, as words are.
SECRET_MIN = 16
# The placeholder of a secret in ops/kubernetes/secret.yaml.
SECRET_PLACEHOLDERS = frozenset({"set this to 32 bytes in hex"})
PREVIOUS_SECRET = "the secret before this one, or empty"
SECRET = f"a secret of {SECRET_MIN} characters or more, or empty for one that is made"

HEALTH: Schema = {
    "failures": Key(whole(1, 1_000_000), HealthSpec().failures),
    "cooldown": Key(seconds(above_zero=False), HealthSpec().cooldown_seconds),
}

TIMEOUTS: Schema = {
    "connect": Key(seconds(), 5.0),
    "chat": Key(seconds(), 180.0),
    "image_attempt": Key(seconds(), 240.0),
    "image_total": Key(seconds(), 280.0),
    "video_submit": Key(seconds(), 60.0),
    "transcript": Key(seconds(), 55.0),
    "speech": Key(seconds(), 60.0),
    "voice": Key(seconds(), 60.0),
    "task_poll": Key(seconds(), 10.0),
}

# The settings of a bucket, if the kind of a store is s3.
BUCKET: Schema = {
    "endpoint": Key(public_url(), ""),
    "region": Key(text(), "auto"),
    "bucket": Key(text(may_be_empty=True), ""),
    "prefix": Key(text(may_be_empty=True), ""),
    "access_key": Key(text("the bucket's key", may_be_empty=True, secret=True), ""),
    "secret_key": Key(text("the bucket's secret", may_be_empty=True, secret=True), ""),
}

KB_STORE: Schema = {
    "kind": Key(choice(KB_STORE_KINDS), "local"),
    "path": Key(folder(), "kb"),
    "link_seconds": Key(whole(1, 3600), 3600),
    "max_source_mb": Key(whole(1, 1024), 64),
    **BUCKET,
}

AGENTS: Schema = {
    "default_model": Key(text(may_be_empty=True), ""),
    "kb_pages": Key(whole(1, 50), 5),
    "kb_page_chars": Key(whole(1, 100_000), 4000),
    "kb_chars": Key(whole(1, 1_000_000), 12_000),
}

TASKS: Schema = {
    "poll_first": Key(seconds(), 2.0),
    "poll_factor": Key(decimal("a factor", least=1, most=1000), Decimal("1.5")),
    "poll_max": Key(seconds(), 15.0),
    "poll_concurrency": Key(whole(1, 10_000), 32),
    "lease": Key(seconds(), 15.0),
    "deadline": Key(seconds(most=366 * 86_400), 86_400.0),
    "catalog_seconds": Key(seconds(), 600.0),
}

STORE_KINDS = ("none", "local", "s3")

MEDIA_STORE: Schema = {
    "kind": Key(choice(STORE_KINDS), "none"),
    "path": Key(folder(), "media"),
    "max_gb": Key(binary_size("GB", GIB, most=1024 * 1024, above_zero=True), 50 * GIB),
    "max_file_mb": Key(binary_size("MB", MIB, most=64 * 1024, above_zero=True), 2048 * MIB),
    "keep_days": Key(whole(1, 3650), 30),
    "concurrency": Key(whole(1, 64), 2),
    "mb_per_second": Key(binary_size("MB", MIB, most=100_000, above_zero=False), 0),
    **BUCKET,
}

TLS: Schema = {
    "certificate": Key(file(), ""),
    "key": Key(file(), ""),
}

# The dialect of each protocol that has more than one (contract for media §1).
WIRE: Schema = {
    row.protocol: Key(optional(choice(row.wires)), None) for row in FAMILIES.values() if row.wires
}

# Of protocols with one path; those of media have several.
PATHS: Schema = {
    protocol: Key(optional(upstream.path(names_model=MODEL_IN_PATH in dialect.address.path)), None)
    for protocol, dialect in DIALECTS.items()
}

CHANNEL: Schema = {
    "id": Key(name_reader("a channel id"), REQUIRED),
    "base_url": Key(base_url(), REQUIRED),
    # May be empty, for an upstream without authentication; an absent key is more likely forgotten.
    "api_key": Key(upstream.api_keys(), REQUIRED),
    "protocols": Key(choices(PROTOCOLS, least=1), REQUIRED),
    "tools": Key(choices(BUILTIN_TOOLS), ()),
    "max_tokens_param": Key(optional(choice(MAX_TOKENS_PARAMS)), None),
    "system_turns": Key(choice(SYSTEM_TURNS), SYSTEM_TURNS[0]),
    "prompt_cache_key": Key(flag(), False),
    "drop_billing_header": Key(flag(), False),
    "propagate_trace": Key(flag(), False),
    "max_concurrency": Key(whole(1, 1_000_000), 256),
    "priority": Key(whole(-1_000_000, 1_000_000), 1),
    "health": section(HEALTH),
    "first_event_seconds": Key(optional(seconds()), None),
    "wire": section(WIRE),
    "paths": section(PATHS),
    # Absent: each protocol's own method.
    "auth": Key(optional(upstream.auth()), None),
    # Of methods that need more than a key, see `credentials.py`.
    "credentials": Key(no_credentials(), None),
    "region": Key(optional(upstream.scope("a region, such as us-east-1")), None),
    "project": Key(optional(upstream.scope("a project's id")), None),
    "headers": Key(upstream.headers(), upstream.Fields()),
    "query": Key(upstream.query(), upstream.Fields()),
    # Absent: $HTTPS_PROXY, unless $NO_PROXY contains the host; empty: none.
    "proxy": Key(upstream.proxy(), None),
    "ca_file": Key(file(), ""),
    "client_certificate": section(TLS),
    # Fills in absent values of the keys above.
    "kind": Key(optional(choice(tuple(KINDS))), None),
}


BINDING: Schema = {
    "id": Key(name_reader("a channel id"), REQUIRED),
    "as": Key(optional(name_reader("the upstream's name of the model")), None),
    # Overrides of the model's price for this channel, and the provider's price.
    "price": Key(entry_price(), None),
    "cost": Key(entry_price(), None),
    "first_event_seconds": Key(optional(seconds()), None),  # in place of the channel's
}


def binding() -> Reader[Section]:
    """Read a channel of a model: its id alone, or a mapping of id and `as`."""
    read_id, read_mapping = BINDING["id"].read, mapping(BINDING)

    def read(node: Node, at: Location) -> Section:
        if isinstance(node, Scalar) and not node.is_nothing:
            alone = {key: one.default for key, one in BINDING.items()}
            return Section({**alone, "id": read_id(node, at)}, at, {"id": at})
        return read_mapping(node, at)

    return read


TYPE_NAMES = tuple(ENDPOINT_TYPES)
UNPRICED = ("refuse", "standard")

VIDEO: Schema = {
    "tier": Key(optional(choice(VIDEO_TIERS)), None),
    "real_person": Key(flag(), False),
    "third_party": Key(flag(), False),
    "multimodal": Key(flag(), False),
}

MODEL: Schema = {
    "id": Key(name_reader("a model id"), REQUIRED),
    "channels": Key(listing(binding(), "a list of channel ids, or of {id: …, as: …}"), ()),
    "display_name": Key(text(may_be_empty=True), ""),  # empty: the id
    "owned_by": Key(text(may_be_empty=True), "gateway"),
    "created": Key(whole(0, LAST_SECOND), 0),
    "context_size": Key(optional(whole(1, MAX_TOKENS)), None),
    "max_output_tokens": Key(optional(whole(1, MAX_TOKENS)), None),
    "price": section(PRICE),
    # For requests for a dearer service tier without a price.
    "unpriced": Key(choice(UNPRICED), "refuse"),
    "multiplier": Key(decimal("a factor", most=1000, above_zero=True, quoted=True), Decimal(1)),
    "capabilities": Key(choices(CAPABILITIES), ()),
    "callable": Key(flag(), True),
    "endpoint_type": Key(optional(choice(TYPE_NAMES, "null for a chat model, or")), None),
    "aliases": Key(listing(placed(name_reader("an alias")), "a list of model ids"), ()),
    "video": section(VIDEO),
}

TOP: Schema = {
    "listen": Key(listen_address(), ListenAddress("127.0.0.1", 8080)),
    "admin_listen": Key(listen_address(), ListenAddress("127.0.0.1", 9090)),
    "admin_hosts": Key(distinct(host_name(), "a list of host names"), ()),
    "console_listen": Key(or_blank(listen_address()), None),  # empty: no console
    "console_url": Key(public_url(), ""),
    "tls": section(TLS),
    "cors_origins": Key(distinct(origin(), "a list of origins, or of *"), ()),
    "public_url": Key(public_url(), ""),
    "data_dir": Key(folder(), "./var"),
    "database_url": Key(engine_url(["postgresql", "postgres"]), ""),
    "redis_url": Key(redis_url(), ""),
    "secret": Key(
        text(
            SECRET,
            may_be_empty=True,
            secret=True,
            least=SECRET_MIN,
            placeholders=SECRET_PLACEHOLDERS,
        ),
        "",
    ),
    "previous_secret": Key(
        text(PREVIOUS_SECRET, may_be_empty=True, secret=True, least=SECRET_MIN), ""
    ),
    "credits_per_usd": Key(
        decimal("credits", most=1_000_000_000, above_zero=True, quoted=True), Decimal(1000)
    ),
    "drain_seconds": Key(seconds(above_zero=False), 30.0),
    "precharge": Key(choice(PRECHARGES), "messages"),
    "worker_silence_seconds": Key(seconds(), 10.0),
    "shed_delay_ms": Key(whole(least=0, most=10_000), 20),
    # The silence after which the client of a stream is sent a sign of life; 0: never.
    "keep_alive_seconds": Key(seconds(above_zero=False), 15.0),
    "keep_alive_before_first_event": Key(flag(), False),
    "max_body_mb": Key(binary_size("MB", MIB, most=1024, above_zero=True), 64 * MIB),
    # For all bodies of a process together; at least one of them.
    "max_bodies_mb": Key(binary_size("MB", MIB, most=1024 * 1024, above_zero=True), 512 * MIB),
    # For all large answers of a process together; at least one of them.
    "max_answers_mb": Key(binary_size("MB", MIB, most=1024 * 1024, above_zero=True), 256 * MIB),
    "translations": Key(choices(SETTINGS), ("chat_to_messages", "chat_to_native")),
    "translate": Key(choices(SETTINGS), ()),  # beside those of `translations`
    "messages_versions": Key(
        distinct(header_text("a version"), "a list of versions", least=1),
        ("2023-06-01", "2026-10-21"),
    ),
    # A stored response is written by the ledger's connection, for which all calls wait meanwhile.
    "idempotency_max_kb": Key(binary_size("kB", KIB, most=16_384, above_zero=False), 1024 * KIB),
    # None: $GW_LOG_LEVEL, then info.
    "log_level": Key(optional(choice(tuple(LEVELS))), None),
    "retention_months": Key(optional(whole(1, 1200)), None),
    "ledger_retention_months": Key(optional(whole(2, 1200)), None),
    "timeouts": section(TIMEOUTS),
    "tasks": section(TASKS),
    "media_store": section(MEDIA_STORE),
    "kb_store": section(KB_STORE),
    "agents": section(AGENTS),
    "channels": Key(listing(channel(CHANNEL), "a list of channels"), ()),
    "models": Key(listing(mapping(MODEL), "a list of models"), ()),
}
