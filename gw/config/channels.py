"""A channel of the file: its keys, and the record that is made of them.

Its `kind` fills in values absent from the file; the kinds are in `channels/kinds.py`. A channel
with `auth: none` or other credentials needs no key. If a kind's address or paths contain region and
project, these are inserted here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from channels import data_promise, kinds, registry
from channels.authorizers.specs import AWS_SIGV4
from channels.credentials import NO_AUTH
from channels.dialects.address import MODEL
from channels.dialects.table import DIALECTS
from channels.families import FAMILIES, PROTOCOLS
from gw.config import addresses, keys, mappings, nodes, readers, upstream
from gw.config.config import TlsFiles
from gw.config.credentials import CREDENTIALS, authorizer_spec, check_credentials_of, placed
from gw.config.faults import Location
from gw.config.readers import InvalidValue, Reader
from gw.config.transport import transport_of

# The dialect of each protocol that has more than one (reference 7.12).
WIRE: mappings.Schema = {
    row.protocol: mappings.Key(readers.optional(readers.choice(row.wires)), None)
    for row in FAMILIES.values()
    if row.wires
}

# Of protocols with one path; those of media have several.
PATHS: mappings.Schema = {
    protocol: mappings.Key(
        readers.optional(upstream.path(names_model=MODEL in dialect.address.path)), None
    )
    for protocol, dialect in DIALECTS.items()
    if protocol in PROTOCOLS
}


def no_credentials() -> Reader[mappings.Section | None]:
    """Read the credentials of methods that take none."""
    allowed = f"credentials with auth: {' or '.join(upstream.PROVED)}"

    def read(node: nodes.Node, at: Location) -> mappings.Section:
        if isinstance(node, nodes.Scalar) and node.is_nothing:
            return mappings.Section({}, at, {})
        raise InvalidValue(found=nodes.described(node, hidden=True), allowed=allowed)

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """When a channel is taken out of rotation, and for how long."""

    failures: int = keys.key(readers.whole(1, 1_000_000), registry.HealthSpec().failures)
    """Failures in a row that open it."""
    cooldown: float = keys.key(
        readers.seconds(above_zero=False), registry.HealthSpec().cooldown_seconds
    )
    """Seconds until a probe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What an upstream promises of the data that it is sent."""

    retention_days: int | None = keys.key(
        readers.optional(readers.whole(0, data_promise.RETENTION_DAYS_MAX)), None
    )
    """It keeps requests and responses for so many days at most; 0: it does not keep them."""
    region: str | None = keys.key(readers.optional(upstream.data_region()), None)
    """Where it keeps them and works on them, and nowhere else: a name of your own, such as `eu`,
    which demands repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """The keys of one upstream account."""

    id: str = keys.required(readers.name_reader("a channel id"))
    """Its name in logs, metrics and commands; what clients see has it redacted."""
    base_url: str = keys.required(addresses.base_url())
    """Its address, with a path or without; each protocol's own path is appended
    (`/v1/chat/completions`, `/v1/messages`, …). Redacted wherever the upstream repeats it."""
    # May be empty, for an upstream without authentication; an absent key is more likely forgotten.
    api_key: tuple[str, ...] = keys.required(upstream.api_keys(), is_secret=True)
    """Its key, redacted wherever the upstream repeats it, from six characters on. Or a list of
    keys, used in turn: one that is refused (401, 402, 403, or what its `kind` says in their place)
    is set aside for 5 minutes; with all of them aside the channel is tried after the model's
    others."""
    protocols: tuple[str, ...] = keys.required(mappings.choices(PROTOCOLS, least=1))
    """What this upstream takes as it is."""
    tools: tuple[str, ...] = keys.key(mappings.choices(registry.BUILTIN_TOOLS), ())
    """Built-in tools that it runs; for chat completions over responses, for models whose
    capabilities have `web_search` and `image_gen`, or say nothing."""
    max_tokens_param: str | None = keys.key(
        readers.optional(readers.choice(registry.MAX_TOKENS_PARAMS)), None
    )
    """What a client's maximum of tokens is called, however the client spells it; null: either."""
    system_turns: str = keys.key(readers.choice(registry.SYSTEM_TURNS), registry.SYSTEM_TURNS[0])
    """chat, responses: whether it takes instructions anywhere, or at the beginning alone, so that
    later ones become the user's words."""
    prompt_cache_key: bool = keys.key(readers.flag(), False)
    """chat, responses: it takes the conversation's name for its cache."""
    drop_billing_header: bool = keys.key(readers.flag(), False)
    """messages: it is not the protocol's maker, so that Claude Code's line for that one, which
    changes with each request, stays out of the prompt."""
    propagate_trace: bool = keys.key(readers.flag(), False)
    """Tell it which trace a call belongs to (`traceparent`, `tracestate`); for upstreams of your
    own."""
    max_concurrency: int = keys.key(readers.whole(1, 1_000_000), 256)
    """Its calls in flight, in each process."""
    priority: int = keys.key(readers.whole(-1_000_000, 1_000_000), 1)
    """Lower is tried first; equal ones share the load by what is in flight."""
    health: Health = keys.section(Health)
    """When it is taken out of rotation, and for how long."""
    first_event_seconds: float | None = keys.key(readers.optional(readers.seconds()), None)
    """On chat: it is left for the next channel if it is silent for so long."""
    on_429: str = keys.key(readers.choice(registry.ON_429), registry.ON_429[0])
    """Who takes its 429: the `client`, or first the `next` channel or key of the model that is not
    throttled, once a call ([when](reference/channels.md#102-when-another-is-tried)). The throttled
    key rests for its `Retry-After`, 60 seconds at most."""
    data: Data = keys.section(Data)
    """What its upstream promises of the data that it is sent; what is left out is not promised. A
    key, an account or a request may demand it
    ([how](reference/channels.md#107-promises-of-data))."""
    wire: mappings.Section = keys.table(WIRE)
    """The dialect of a protocol, where it is not `plain`: of media this gateway's own API, of
    messages and chat the protocol as its maker has it, which other hosts change."""
    paths: mappings.Section = keys.table(PATHS)
    """The whole path of a protocol, in place of the address's own and the protocol's; `{model}` is
    the upstream's name of the model."""
    auth: str | None = keys.key(readers.optional(upstream.auth()), None)
    """How the key is sent; null: the protocol's own way. Or more than a key, with `credentials`."""
    credentials: mappings.Section | None = keys.key(no_credentials(), None, is_secret=True)
    """What `auth` needs beside or in place of a key. What is left out is found where the provider's
    own library looks: environment, profile, the machine."""
    region: str | None = keys.key(readers.optional(upstream.region()), None)
    """The region in the kind's address and in signatures."""
    project: str | None = keys.key(readers.optional(upstream.project()), None)
    """The project in the kind's paths."""
    headers: upstream.Fields = keys.key(upstream.headers(), upstream.Fields(), is_secret=True)
    """Headers of every request, in place of a client's of that name; what these take from `${…}`
    is redacted as the key is."""
    query: upstream.Fields = keys.key(upstream.query(), upstream.Fields(), is_secret=True)
    """Parameters of every request, likewise."""
    proxy: str | None = keys.key(upstream.proxy(), None, is_secret=True)
    """A proxy that is asked for a tunnel (CONNECT). Left out: `$HTTPS_PROXY`, for https and hosts
    that `$NO_PROXY` has not; empty: none."""
    ca_file: str = keys.key(readers.file(), "")
    """Whom it trusts instead of the system's certificates."""
    client_certificate: TlsFiles = keys.section(TlsFiles)
    """The certificate that it is shown; read again on SIGHUP."""
    kind: str | None = keys.key(readers.optional(readers.choice(tuple(kinds.KINDS))), None)
    """A provider known by name, which fills in what is left out of the keys above
    (`channels/kinds.py`, each with its source)."""


CHANNEL = keys.keys_of(Channel)

KEY_AUTH = "bearer"  # of a kind with other credentials, if the channel has a key


def channel() -> Reader[mappings.Section]:
    """Read a channel, with the defaults of its kind."""

    @cache
    def reader(kind: str, way: str) -> Reader[mappings.Section]:
        return mappings.mapping(_filled(kinds.KINDS.get(kind), way))

    def read(node: nodes.Node, at: Location) -> mappings.Section:
        kind = kinds.KINDS.get(_written(node, "kind") or "")
        way = _written(node, "auth") or _usual_way(node, kind)
        # Other methods are read alike.
        known = way if way in (NO_AUTH, KEY_AUTH, *upstream.PROVED) else ""
        found = reader(kind.name if kind is not None else "", known)(node, at)
        if way in upstream.PROVED:
            check_credentials_of(found, way)
        return _placed(found, kind)

    return read


def _usual_way(node: nodes.Node, kind: kinds.Kind | None) -> str:
    if kind is None or kind.auth is None:
        return ""
    has_key = isinstance(node, nodes.Table) and "api_key" in node.entries
    return KEY_AUTH if kind.auth in upstream.PROVED and has_key else kind.auth


def _written(node: nodes.Node, name: str) -> str | None:
    """Return the text of a key, or None; the mapping's reader validates it."""
    entry = node.entries.get(name) if isinstance(node, nodes.Table) else None
    return entry.value.text if entry is not None and isinstance(entry.value, nodes.Scalar) else None


def _filled(kind: kinds.Kind | None, way: str) -> mappings.Schema:
    """Return the keys with the defaults of a kind and of a way of `auth`."""
    defaults: dict[str, Any] = {}
    filled = dict(CHANNEL)
    if way == NO_AUTH or way in upstream.PROVED:
        defaults["api_key"] = ()
    if way in upstream.PROVED:
        filled["credentials"] = mappings.section(keys.keys_of(CREDENTIALS[way]))
    if kind is not None:
        defaults |= {name: getattr(kind, name) for name in kinds.FILLED}
        defaults["auth"] = way if kind.auth in upstream.PROVED else kind.auth
        if kind.base_url:
            defaults["base_url"] = kind.base_url
        filled["paths"] = _filled_section(PATHS, kind.paths)
        filled["wire"] = _filled_section(WIRE, kind.wire)
    return filled | {name: replace(filled[name], default=one) for name, one in defaults.items()}


def _filled_section(schema: mappings.Schema, defaults: Mapping[str, str]) -> mappings.Key:
    return mappings.section(
        {
            name: replace(one, default=defaults.get(name, one.default))
            for name, one in schema.items()
        }
    )


def _placed(found: mappings.Section, kind: kinds.Kind | None) -> mappings.Section:
    """Return the channel with region and project inserted into its kind's address and paths."""
    values = dict(found.values)
    marks = {kinds.REGION: values.get("region") or "", kinds.PROJECT: values.get("project") or ""}
    base_url = values.get("base_url")
    if kind is not None and base_url == kind.base_url:
        base_url = kind.regional.get(marks[kinds.REGION], base_url)
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
    needed = {"region": is_signed or kinds.REGION in text, "project": kinds.PROJECT in text}
    return [name for name in needed if needed[name] and values.get(name, "") is None]


def _with(template: str, marks: Mapping[str, str]) -> str:
    for mark, value in marks.items():
        template = template.replace(mark, value)
    return template


def channel_spec(
    found: mappings.Section, folder: Path, environ: Mapping[str, str]
) -> registry.ChannelSpec:
    """Return the channel of a mapping without faults. Relative paths start at `folder`."""
    one = keys.record_of(Channel, found)
    own = one.client_certificate
    files = (one.ca_file, own.certificate, own.private_key)
    return registry.ChannelSpec(
        id=one.id,
        base_url=one.base_url,
        api_key=next(iter(one.api_key), ""),
        more_keys=one.api_key[1:],
        protocols=frozenset(one.protocols),
        tools=frozenset(one.tools),
        max_tokens_param=one.max_tokens_param,
        has_system_first=one.system_turns == registry.SYSTEM_TURNS[1],
        takes_cache_key=one.prompt_cache_key,
        drops_billing_header=one.drop_billing_header,
        hops_when_throttled=one.on_429 == registry.ON_429[1],
        data_promise=data_promise.DataPromise(one.data.retention_days, one.data.region),
        propagate_trace=one.propagate_trace,
        max_concurrency=one.max_concurrency,
        priority=one.priority,
        wire=_of_protocols(one.wire, one.protocols),
        health=registry.HealthSpec(
            one.health.failures, one.health.cooldown, one.first_event_seconds
        ),
        paths=_of_protocols(one.paths, one.protocols),
        auth=one.auth,
        headers=one.headers.pairs,
        query=_query(one),
        kind=one.kind or "",
        transport=transport_of(
            one.base_url, one.proxy, [placed(path, folder) for path in files], environ
        ),
        authorizer=authorizer_spec(one.auth, one.region, one.credentials, folder),
        by_model=found.get("by_model", ()),
        field_secrets=one.headers.secrets | one.query.secrets,
    )


def _of_protocols(section: mappings.Section, protocols: Sequence[str]) -> dict[str, str]:
    """Return the settings of the channel's protocols; its kind may have more."""
    return {
        name: value
        for name, value in section.values.items()
        if value is not None and name in protocols
    }


def _query(one: Channel) -> tuple[tuple[str, str], ...]:
    """Return the query of the channel's kind, overridden by its own parameters."""
    kind = kinds.KINDS.get(one.kind or "")
    names = {name.lower() for name, _ in one.query.pairs}
    usual = kind.query if kind is not None else ()
    return (*(pair for pair in usual if pair[0].lower() not in names), *one.query.pairs)
