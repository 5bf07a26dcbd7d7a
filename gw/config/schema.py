"""Every key of the configuration file: what it takes, its range, its default (contract §2).

This is the page to lay beside the contract. A `section` is a mapping of its own, REQUIRED stands
where there is no default; what ties several values together is checked in `relations.py`.
"""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal

from channels.dialects.address import MODEL as MODEL_IN_PATH
from channels.dialects.table import DIALECTS
from channels.families import ENDPOINT_TYPES, FAMILIES, PROTOCOLS
from channels.kinds import KINDS
from channels.registry import (
    BUILTIN_TOOLS,
    CAPABILITIES,
    MAX_TOKENS_PARAMS,
    VIDEO_TIERS,
    HealthSpec,
    PriceSpec,
)
from channels.translation.paths import SETTINGS
from gw.config import upstream
from gw.config.addresses import base_url, engine_url, listen_address, public_url
from gw.config.config import KB_STORE_KINDS, PRECHARGES, ListenAddress
from gw.config.faults import Location
from gw.config.kinds import channel, no_credentials
from gw.config.nodes import Node, Scalar
from gw.config.readers import (
    Reader,
    binary_size,
    choice,
    decimal,
    file,
    flag,
    folder,
    header_text,
    name,
    optional,
    seconds,
    text,
    whole,
)
from gw.config.redis_url import redis_url
from gw.config.structures import (
    REQUIRED,
    Key,
    Schema,
    Section,
    by_name,
    choices,
    distinct,
    listing,
    mapping,
    placed,
    section,
)
from metrics.logs import LEVELS

KIB, MIB, GIB = 1024, 1024 * 1024, 1024 * 1024 * 1024
MAX_TOKENS = 1_000_000_000
LAST_SECOND = 253_402_300_799  # of the year 9999

# What encrypts every stored key must not be guessed: a word is.
SECRET_MIN = 16
PREVIOUS_SECRET = "the secret before this one, or empty"
SECRET = f"a secret of {SECRET_MIN} characters or more, or empty for one that is made"

PRICE_READER = decimal("a price in USD", most=1_000_000, quoted=True)
PRICE_KEYS = tuple(field.name for field in fields(PriceSpec))
PRICE: Schema = {
    **{key: Key(optional(PRICE_READER), None) for key in PRICE_KEYS},
    "per_second_by_resolution": Key(optional(by_name(PRICE_READER, "a price of each")), None),
}

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

# How a bucket is named and reached, where the kind of a store is s3.
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

# Of the protocols that have one path each; those of media have several.
PATHS: Schema = {
    protocol: Key(optional(upstream.path(names_model=MODEL_IN_PATH in dialect.address.path)), None)
    for protocol, dialect in DIALECTS.items()
}

CHANNEL: Schema = {
    "id": Key(name("a channel id"), REQUIRED),
    "base_url": Key(base_url(), REQUIRED),
    # May be empty, for an upstream that asks for none; leaving it out is more likely forgotten.
    "api_key": Key(upstream.api_keys(), REQUIRED),
    "protocols": Key(choices(PROTOCOLS, least=1), REQUIRED),
    "tools": Key(choices(BUILTIN_TOOLS), ()),
    "max_tokens_param": Key(optional(choice(MAX_TOKENS_PARAMS)), None),
    "propagate_trace": Key(flag(), False),
    "max_concurrency": Key(whole(1, 1_000_000), 256),
    "priority": Key(whole(-1_000_000, 1_000_000), 1),
    "health": section(HEALTH),
    "wire": section(WIRE),
    "paths": section(PATHS),
    # Left out, each protocol's own way.
    "auth": Key(optional(upstream.auth()), None),
    # Of the ways that need more than a key: what each takes is `credentials.py`.
    "credentials": Key(no_credentials(), None),
    "region": Key(optional(upstream.scope("a region, such as us-east-1")), None),
    "project": Key(optional(upstream.scope("a project's id")), None),
    "headers": Key(upstream.headers(), upstream.Fields()),
    "query": Key(upstream.query(), upstream.Fields()),
    # Left out: $HTTPS_PROXY, unless $NO_PROXY has the host; empty: none.
    "proxy": Key(upstream.proxy(), None),
    "ca_file": Key(file(), ""),
    "client_certificate": section(TLS),
    # Fills in what is left out of the above.
    "kind": Key(optional(choice(tuple(KINDS))), None),
}


BINDING: Schema = {
    "id": Key(name("a channel id"), REQUIRED),
    "as": Key(optional(name("the upstream's name of the model")), None),
}


def binding() -> Reader[Section]:
    """Read a channel of a model: its id alone, or a mapping of id and `as`."""
    read_id, read_mapping = BINDING["id"].read, mapping(BINDING)

    def read(node: Node, at: Location) -> Section:
        if isinstance(node, Scalar) and not node.is_nothing:
            return Section({"id": read_id(node, at), "as": None}, at, {"id": at})
        return read_mapping(node, at)

    return read


TYPE_NAMES = tuple(ENDPOINT_TYPES)

VIDEO: Schema = {
    "tier": Key(optional(choice(VIDEO_TIERS)), None),
    "real_person": Key(flag(), False),
    "third_party": Key(flag(), False),
    "multimodal": Key(flag(), False),
}

MODEL: Schema = {
    "id": Key(name("a model id"), REQUIRED),
    "channels": Key(listing(binding(), "a list of channel ids, or of {id: …, as: …}"), ()),
    "display_name": Key(text(may_be_empty=True), ""),  # empty: the id
    "owned_by": Key(text(may_be_empty=True), "gateway"),
    "created": Key(whole(0, LAST_SECOND), 0),
    "context_size": Key(optional(whole(1, MAX_TOKENS)), None),
    "max_output_tokens": Key(optional(whole(1, MAX_TOKENS)), None),
    "price": section(PRICE),
    "multiplier": Key(decimal("a factor", most=1000, above_zero=True, quoted=True), Decimal(1)),
    "capabilities": Key(choices(CAPABILITIES), ()),
    "callable": Key(flag(), True),
    "endpoint_type": Key(optional(choice(TYPE_NAMES, "null for a chat model, or")), None),
    "aliases": Key(listing(placed(name("an alias")), "a list of model ids"), ()),
    "video": section(VIDEO),
}

TOP: Schema = {
    "listen": Key(listen_address(), ListenAddress("127.0.0.1", 8080)),
    "admin_listen": Key(listen_address(), ListenAddress("127.0.0.1", 9090)),
    "tls": section(TLS),
    "public_url": Key(public_url(), ""),
    "data_dir": Key(folder(), "./var"),
    "database_url": Key(engine_url(["postgresql", "postgres"]), ""),
    "redis_url": Key(redis_url(), ""),
    "secret": Key(text(SECRET, may_be_empty=True, secret=True, least=SECRET_MIN), ""),
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
    "max_body_mb": Key(binary_size("MB", MIB, most=1024, above_zero=True), 64 * MIB),
    # Of all that a process holds at once; at least one of them.
    "max_bodies_mb": Key(binary_size("MB", MIB, most=1024 * 1024, above_zero=True), 512 * MIB),
    "translations": Key(choices(SETTINGS), ("chat_to_messages", "chat_to_native")),
    "messages_versions": Key(
        distinct(header_text("a version"), "a list of versions", least=1),
        ("2023-06-01", "2026-10-21"),
    ),
    # What is kept goes through the ledger's own connection, which everybody waits for meanwhile.
    "idempotency_max_kb": Key(binary_size("kB", KIB, most=16_384, above_zero=False), 1024 * KIB),
    # None: $GW_LOG_LEVEL, then info.
    "log_level": Key(optional(choice(tuple(LEVELS))), None),
    "retention_months": Key(optional(whole(1, 1200)), None),
    "timeouts": section(TIMEOUTS),
    "tasks": section(TASKS),
    "media_store": section(MEDIA_STORE),
    "kb_store": section(KB_STORE),
    "agents": section(AGENTS),
    "channels": Key(listing(channel(CHANNEL), "a list of channels"), ()),
    "models": Key(listing(mapping(MODEL), "a list of models"), ()),
}
