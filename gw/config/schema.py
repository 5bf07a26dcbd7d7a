"""Every key of the configuration file, with its values, range and default (contract §2).

The page to compare with the contract. A `section` is a nested mapping, REQUIRED means that there is
no default; `relations.py` checks values against each other.
"""

from __future__ import annotations

from decimal import Decimal

from channels import registry
from channels.dialects.address import MODEL as MODEL_IN_PATH
from channels.dialects.table import DIALECTS
from channels.families import ENDPOINT_TYPES, FAMILIES, PROTOCOLS
from channels.kinds import KINDS
from channels.translation.paths import SETTINGS
from gw.config import addresses, mappings, readers, upstream
from gw.config.channels import channel, no_credentials
from gw.config.config import KB_STORE_KINDS, PRECHARGES, ListenAddress
from gw.config.faults import Location
from gw.config.nodes import Node, Scalar
from gw.config.prices import PRICE, entry_price
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

HEALTH: mappings.Schema = {
    "failures": mappings.Key(readers.whole(1, 1_000_000), registry.HealthSpec().failures),
    "cooldown": mappings.Key(
        readers.seconds(above_zero=False), registry.HealthSpec().cooldown_seconds
    ),
}

TIMEOUTS: mappings.Schema = {
    "connect": mappings.Key(readers.seconds(), 5.0),
    "chat": mappings.Key(readers.seconds(), 180.0),
    "image_attempt": mappings.Key(readers.seconds(), 240.0),
    "image_total": mappings.Key(readers.seconds(), 280.0),
    "video_submit": mappings.Key(readers.seconds(), 60.0),
    "transcript": mappings.Key(readers.seconds(), 55.0),
    "speech": mappings.Key(readers.seconds(), 60.0),
    "voice": mappings.Key(readers.seconds(), 60.0),
    "task_poll": mappings.Key(readers.seconds(), 10.0),
}

# The settings of a bucket, if the kind of a store is s3.
BUCKET: mappings.Schema = {
    "endpoint": mappings.Key(addresses.public_url(), ""),
    "region": mappings.Key(readers.text(), "auto"),
    "bucket": mappings.Key(readers.text(may_be_empty=True), ""),
    "prefix": mappings.Key(readers.text(may_be_empty=True), ""),
    "access_key": mappings.Key(
        readers.text("the bucket's key", may_be_empty=True, secret=True), ""
    ),
    "secret_key": mappings.Key(
        readers.text("the bucket's secret", may_be_empty=True, secret=True), ""
    ),
}

KB_STORE: mappings.Schema = {
    "kind": mappings.Key(readers.choice(KB_STORE_KINDS), "local"),
    "path": mappings.Key(readers.folder(), "kb"),
    "link_seconds": mappings.Key(readers.whole(1, 3600), 3600),
    "max_source_mb": mappings.Key(readers.whole(1, 1024), 64),
    **BUCKET,
}

AGENTS: mappings.Schema = {
    "default_model": mappings.Key(readers.text(may_be_empty=True), ""),
    "kb_pages": mappings.Key(readers.whole(1, 50), 5),
    "kb_page_chars": mappings.Key(readers.whole(1, 100_000), 4000),
    "kb_chars": mappings.Key(readers.whole(1, 1_000_000), 12_000),
}

TASKS: mappings.Schema = {
    "poll_first": mappings.Key(readers.seconds(), 2.0),
    "poll_factor": mappings.Key(readers.decimal("a factor", least=1, most=1000), Decimal("1.5")),
    "poll_max": mappings.Key(readers.seconds(), 15.0),
    "poll_concurrency": mappings.Key(readers.whole(1, 10_000), 32),
    "lease": mappings.Key(readers.seconds(), 15.0),
    "deadline": mappings.Key(readers.seconds(most=366 * 86_400), 86_400.0),
    "catalog_seconds": mappings.Key(readers.seconds(), 600.0),
}

STORE_KINDS = ("none", "local", "s3")

MEDIA_STORE: mappings.Schema = {
    "kind": mappings.Key(readers.choice(STORE_KINDS), "none"),
    "path": mappings.Key(readers.folder(), "media"),
    "max_gb": mappings.Key(
        readers.binary_size("GB", GIB, most=1024 * 1024, above_zero=True), 50 * GIB
    ),
    "max_file_mb": mappings.Key(
        readers.binary_size("MB", MIB, most=64 * 1024, above_zero=True), 2048 * MIB
    ),
    "keep_days": mappings.Key(readers.whole(1, 3650), 30),
    "concurrency": mappings.Key(readers.whole(1, 64), 2),
    "mb_per_second": mappings.Key(
        readers.binary_size("MB", MIB, most=100_000, above_zero=False), 0
    ),
    **BUCKET,
}

TLS: mappings.Schema = {
    "certificate": mappings.Key(readers.file(), ""),
    "key": mappings.Key(readers.file(), ""),
}

# The dialect of each protocol that has more than one (contract for media §1).
WIRE: mappings.Schema = {
    row.protocol: mappings.Key(readers.optional(readers.choice(row.wires)), None)
    for row in FAMILIES.values()
    if row.wires
}

# Of protocols with one path; those of media have several.
PATHS: mappings.Schema = {
    protocol: mappings.Key(
        readers.optional(upstream.path(names_model=MODEL_IN_PATH in dialect.address.path)), None
    )
    for protocol, dialect in DIALECTS.items()
}

CHANNEL: mappings.Schema = {
    "id": mappings.Key(readers.name_reader("a channel id"), mappings.REQUIRED),
    "base_url": mappings.Key(addresses.base_url(), mappings.REQUIRED),
    # May be empty, for an upstream without authentication; an absent key is more likely forgotten.
    "api_key": mappings.Key(upstream.api_keys(), mappings.REQUIRED),
    "protocols": mappings.Key(mappings.choices(PROTOCOLS, least=1), mappings.REQUIRED),
    "tools": mappings.Key(mappings.choices(registry.BUILTIN_TOOLS), ()),
    "max_tokens_param": mappings.Key(
        readers.optional(readers.choice(registry.MAX_TOKENS_PARAMS)), None
    ),
    "system_turns": mappings.Key(readers.choice(registry.SYSTEM_TURNS), registry.SYSTEM_TURNS[0]),
    "prompt_cache_key": mappings.Key(readers.flag(), False),
    "drop_billing_header": mappings.Key(readers.flag(), False),
    "propagate_trace": mappings.Key(readers.flag(), False),
    "max_concurrency": mappings.Key(readers.whole(1, 1_000_000), 256),
    "priority": mappings.Key(readers.whole(-1_000_000, 1_000_000), 1),
    "health": mappings.section(HEALTH),
    "first_event_seconds": mappings.Key(readers.optional(readers.seconds()), None),
    "wire": mappings.section(WIRE),
    "paths": mappings.section(PATHS),
    # Absent: each protocol's own method.
    "auth": mappings.Key(readers.optional(upstream.auth()), None),
    # Of methods that need more than a key, see `credentials.py`.
    "credentials": mappings.Key(no_credentials(), None),
    "region": mappings.Key(readers.optional(upstream.scope("a region, such as us-east-1")), None),
    "project": mappings.Key(readers.optional(upstream.scope("a project's id")), None),
    "headers": mappings.Key(upstream.headers(), upstream.Fields()),
    "query": mappings.Key(upstream.query(), upstream.Fields()),
    # Absent: $HTTPS_PROXY, unless $NO_PROXY contains the host; empty: none.
    "proxy": mappings.Key(upstream.proxy(), None),
    "ca_file": mappings.Key(readers.file(), ""),
    "client_certificate": mappings.section(TLS),
    # Fills in absent values of the keys above.
    "kind": mappings.Key(readers.optional(readers.choice(tuple(KINDS))), None),
}


BINDING: mappings.Schema = {
    "id": mappings.Key(readers.name_reader("a channel id"), mappings.REQUIRED),
    "as": mappings.Key(
        readers.optional(readers.name_reader("the upstream's name of the model")), None
    ),
    # Overrides of the model's price for this channel, and the provider's price.
    "price": mappings.Key(entry_price(), None),
    "cost": mappings.Key(entry_price(), None),
    "first_event_seconds": mappings.Key(
        readers.optional(readers.seconds()), None
    ),  # in place of the channel's
}


def binding() -> readers.Reader[mappings.Section]:
    """Read a channel of a model: its id alone, or a mapping of id and `as`."""
    read_id, read_mapping = BINDING["id"].read, mappings.mapping(BINDING)

    def read(node: Node, at: Location) -> mappings.Section:
        if isinstance(node, Scalar) and not node.is_nothing:
            alone = {key: one.default for key, one in BINDING.items()}
            return mappings.Section({**alone, "id": read_id(node, at)}, at, {"id": at})
        return read_mapping(node, at)

    return read


TYPE_NAMES = tuple(ENDPOINT_TYPES)
UNPRICED = ("refuse", "standard")

VIDEO: mappings.Schema = {
    "tier": mappings.Key(readers.optional(readers.choice(registry.VIDEO_TIERS)), None),
    "real_person": mappings.Key(readers.flag(), False),
    "third_party": mappings.Key(readers.flag(), False),
    "multimodal": mappings.Key(readers.flag(), False),
}

MODEL: mappings.Schema = {
    "id": mappings.Key(readers.name_reader("a model id"), mappings.REQUIRED),
    "channels": mappings.Key(
        mappings.listing(binding(), "a list of channel ids, or of {id: …, as: …}"), ()
    ),
    "display_name": mappings.Key(readers.text(may_be_empty=True), ""),  # empty: the id
    "owned_by": mappings.Key(readers.text(may_be_empty=True), "gateway"),
    "created": mappings.Key(readers.whole(0, LAST_SECOND), 0),
    "context_size": mappings.Key(readers.optional(readers.whole(1, MAX_TOKENS)), None),
    "max_output_tokens": mappings.Key(readers.optional(readers.whole(1, MAX_TOKENS)), None),
    "price": mappings.section(PRICE),
    # For requests for a dearer service tier without a price.
    "unpriced": mappings.Key(readers.choice(UNPRICED), "refuse"),
    "multiplier": mappings.Key(
        readers.decimal("a factor", most=1000, above_zero=True, quoted=True), Decimal(1)
    ),
    "capabilities": mappings.Key(mappings.choices(registry.CAPABILITIES), ()),
    "callable": mappings.Key(readers.flag(), True),
    "endpoint_type": mappings.Key(
        readers.optional(readers.choice(TYPE_NAMES, "null for a chat model, or")), None
    ),
    "aliases": mappings.Key(
        mappings.listing(mappings.placed(readers.name_reader("an alias")), "a list of model ids"),
        (),
    ),
    "video": mappings.section(VIDEO),
}

TOP: mappings.Schema = {
    "listen": mappings.Key(addresses.listen_address(), ListenAddress("127.0.0.1", 8080)),
    "admin_listen": mappings.Key(addresses.listen_address(), ListenAddress("127.0.0.1", 9090)),
    "admin_hosts": mappings.Key(
        mappings.distinct(addresses.host_name(), "a list of host names"), ()
    ),
    "console_listen": mappings.Key(
        readers.or_blank(addresses.listen_address()), None
    ),  # empty: no console
    "console_url": mappings.Key(addresses.public_url(), ""),
    "tls": mappings.section(TLS),
    "cors_origins": mappings.Key(
        mappings.distinct(addresses.origin(), "a list of origins, or of *"), ()
    ),
    "public_url": mappings.Key(addresses.public_url(), ""),
    "data_dir": mappings.Key(readers.folder(), "./var"),
    "database_url": mappings.Key(addresses.engine_url(["postgresql", "postgres"]), ""),
    "redis_url": mappings.Key(redis_url(), ""),
    "secret": mappings.Key(
        readers.text(
            SECRET,
            may_be_empty=True,
            secret=True,
            least=SECRET_MIN,
            placeholders=SECRET_PLACEHOLDERS,
        ),
        "",
    ),
    "previous_secret": mappings.Key(
        readers.text(PREVIOUS_SECRET, may_be_empty=True, secret=True, least=SECRET_MIN), ""
    ),
    "credits_per_usd": mappings.Key(
        readers.decimal("credits", most=1_000_000_000, above_zero=True, quoted=True), Decimal(1000)
    ),
    "drain_seconds": mappings.Key(readers.seconds(above_zero=False), 30.0),
    "precharge": mappings.Key(readers.choice(PRECHARGES), "messages"),
    "worker_silence_seconds": mappings.Key(readers.seconds(), 10.0),
    "shed_delay_ms": mappings.Key(readers.whole(least=0, most=10_000), 20),
    # The silence after which the client of a stream is sent a sign of life; 0: never.
    "keep_alive_seconds": mappings.Key(readers.seconds(above_zero=False), 15.0),
    "keep_alive_before_first_event": mappings.Key(readers.flag(), False),
    "max_body_mb": mappings.Key(
        readers.binary_size("MB", MIB, most=1024, above_zero=True), 64 * MIB
    ),
    # For all bodies of a process together; at least one of them.
    "max_bodies_mb": mappings.Key(
        readers.binary_size("MB", MIB, most=1024 * 1024, above_zero=True), 512 * MIB
    ),
    # For all large answers of a process together; at least one of them.
    "max_answers_mb": mappings.Key(
        readers.binary_size("MB", MIB, most=1024 * 1024, above_zero=True), 256 * MIB
    ),
    "translations": mappings.Key(
        mappings.choices(SETTINGS), ("chat_to_messages", "chat_to_native")
    ),
    "translate": mappings.Key(mappings.choices(SETTINGS), ()),  # beside those of `translations`
    "messages_versions": mappings.Key(
        mappings.distinct(readers.header_text("a version"), "a list of versions", least=1),
        ("2023-06-01", "2026-10-21"),
    ),
    # A stored response is written by the ledger's connection, for which all calls wait meanwhile.
    "idempotency_max_kb": mappings.Key(
        readers.binary_size("kB", KIB, most=16_384, above_zero=False), 1024 * KIB
    ),
    # None: $GW_LOG_LEVEL, then info.
    "log_level": mappings.Key(readers.optional(readers.choice(tuple(LEVELS))), None),
    "retention_months": mappings.Key(readers.optional(readers.whole(1, 1200)), None),
    "ledger_retention_months": mappings.Key(readers.optional(readers.whole(2, 1200)), None),
    "timeouts": mappings.section(TIMEOUTS),
    "tasks": mappings.section(TASKS),
    "media_store": mappings.section(MEDIA_STORE),
    "kb_store": mappings.section(KB_STORE),
    "agents": mappings.section(AGENTS),
    "channels": mappings.Key(mappings.listing(channel(CHANNEL), "a list of channels"), ()),
    "models": mappings.Key(mappings.listing(mappings.mapping(MODEL), "a list of models"), ()),
}
