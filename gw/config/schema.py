"""Every key of the configuration file, with its values, range and default (contract §2).

The page to compare with the contract. A `section` is a nested mapping, REQUIRED means that there is
no default; `relations.py` checks values against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

from channels.authorizers.specs import AWS_SIGV4
from channels.dialects.dialect import MODEL as MODEL_IN_PATH
from channels.dialects.table import DIALECTS
from channels.families import ENDPOINT_TYPES, FAMILIES, PROTOCOLS
from channels.kinds import KINDS, PROJECT, REGION, Kind
from channels.registry import (
    BUILTIN_TOOLS,
    CAPABILITIES,
    MAX_TOKENS_PARAMS,
    NO_AUTH,
    SYSTEM_TURNS,
    VIDEO_TIERS,
    HealthSpec,
)
from channels.translation.session import SETTINGS
from gw.config import upstream
from gw.config.config import KB_STORE_KINDS, PRECHARGES, ListenAddress
from gw.config.credentials import CREDENTIALS, check_credentials_of
from gw.config.prices import PRICE, entry_price
from gw.config.readers import (
    InvalidValue,
    Location,
    Node,
    Reader,
    Scalar,
    Table,
    binary_size,
    choice,
    decimal,
    described,
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
from gw.config.upstream import PROVED
from gw.config.values import (
    REQUIRED,
    Key,
    Schema,
    Section,
    base_url,
    choices,
    distinct,
    engine_url,
    host_name,
    listen_address,
    listing,
    mapping,
    origin,
    placed,
    public_url,
    redis_url,
    section,
)
from metrics.logs import LEVELS

# Reads a channel: its `kind` fills in values absent from the file.
#
# The kinds are in `channels/kinds.py`. A channel with `auth: none` or other credentials needs no
# key. If a kind's address or paths contain region and project, these are inserted here.

KEY_AUTH = "bearer"  # of a kind with other credentials, if the channel has a key


def channel(schema: Schema) -> Reader[Section]:
    """Read a channel by its table of keys."""

    @cache
    def reader(kind: str, way: str) -> Reader[Section]:
        return mapping(_filled(schema, KINDS.get(kind), way))

    def read(node: Node, at: Location) -> Section:
        kind = KINDS.get(_written(node, "kind") or "")
        way = _written(node, "auth") or _usual_way(node, kind)
        # Other methods are read alike.
        known = way if way in (NO_AUTH, KEY_AUTH, *PROVED) else ""
        found = reader(kind.name if kind is not None else "", known)(node, at)
        if way in PROVED:
            check_credentials_of(found, way)
        return _placed(found, kind)

    return read


def no_credentials() -> Reader[Section]:
    """Read the credentials of methods that take none."""
    allowed = f"credentials with auth: {' or '.join(PROVED)}"

    def read(node: Node, at: Location) -> Section:
        if isinstance(node, Scalar) and node.is_nothing:
            return Section({}, at, {})
        raise InvalidValue(found=described(node, hidden=True), allowed=allowed)

    return read


def _usual_way(node: Node, kind: Kind | None) -> str:
    if kind is None or kind.auth is None:
        return ""
    has_key = isinstance(node, Table) and "api_key" in node.entries
    return KEY_AUTH if kind.auth in PROVED and has_key else kind.auth


def _written(node: Node, name: str) -> str | None:
    """Return the text of a key, or None; the mapping's reader validates it."""
    entry = node.entries.get(name) if isinstance(node, Table) else None
    return entry.value.text if entry is not None and isinstance(entry.value, Scalar) else None


def _filled(schema: Schema, kind: Kind | None, way: str) -> Schema:
    """Return the table with the defaults of a kind and of a way of `auth`."""
    filled = dict(schema)
    if way == NO_AUTH or way in PROVED:
        filled["api_key"] = Key(schema["api_key"].read, ())
    if way in PROVED:
        filled["credentials"] = section(CREDENTIALS[way])
    if kind is None:
        return filled
    if kind.base_url:
        filled["base_url"] = Key(schema["base_url"].read, kind.base_url)
    for name, default in (
        ("protocols", kind.protocols),
        ("tools", kind.tools),
        ("auth", way if kind.auth in PROVED else kind.auth),
        ("max_tokens_param", kind.max_tokens_param),
        ("system_turns", kind.system_turns),
        ("prompt_cache_key", kind.prompt_cache_key),
        ("drop_billing_header", kind.drop_billing_header),
    ):
        filled[name] = Key(schema[name].read, default)
    for name, defaults in (("paths", kind.paths), ("wire", kind.wire)):
        filled[name] = _filled_section(schema[name], defaults)
    return filled


def _filled_section(key: Key, defaults: Mapping[str, str]) -> Key:
    assert key.inside is not None
    return section(
        {name: Key(one.read, defaults.get(name, one.default)) for name, one in key.inside.items()}
    )


def _placed(found: Section, kind: Kind | None) -> Section:
    """Return the channel with region and project inserted into its kind's address and paths."""
    values = dict(found.values)
    marks = {REGION: values.get("region") or "", PROJECT: values.get("project") or ""}
    base_url = values.get("base_url")
    if kind is not None and base_url == kind.base_url:
        base_url = kind.regional.get(marks[REGION], base_url)
    who = f"auth: {AWS_SIGV4}" if kind is None else f"kind {kind.name}"
    for name in _missing(values, base_url or ""):
        found.location(name).blame(found="nothing", allowed=f"a {name}: {who} needs one")
    if base_url is not None:
        values["base_url"] = _with(base_url, marks)
    if (paths := values.get("paths")) is not None:
        own = {name: path and _with(path, marks) for name, path in paths.values.items()}
        values["paths"] = replace(paths, values=own)
    if kind is not None and "protocols" not in found.locations:
        values["by_model"] = tuple((text, frozenset({name})) for text, name in kind.by_model)
    return replace(found, values=values)


def _missing(values: Mapping[str, Any], base_url: str) -> list[str]:
    """Return the missing ones of region and project, for address, paths or signature."""
    templates = [base_url]
    if (paths := values.get("paths")) is not None:
        spoken = values.get("protocols") or ()
        templates += [path for name, path in paths.values.items() if path and name in spoken]
    text = " ".join(templates)
    is_signed = values.get("auth") == AWS_SIGV4
    needed = {"region": is_signed or REGION in text, "project": PROJECT in text}
    return [name for name in needed if needed[name] and values.get(name, "") is None]


def _with(template: str, marks: Mapping[str, str]) -> str:
    for mark, value in marks.items():
        template = template.replace(mark, value)
    return template


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
