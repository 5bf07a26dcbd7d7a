"""Loads a Config from a path, or reports every fault.

The steps: bytes, text, tree (`yaml_source.py`), values (`schema.py`), relations between them
(`relations.py`), and the frozen result. A fault prevents all later steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from actors.media_store.links import BucketSpec
from channels.authorizers.specs import AuthorizerSpec
from channels.files import bounded, read_regular
from channels.http.transport import Transport
from channels.kinds import KINDS
from channels.prices import PriceSpec
from channels.registry import (
    SYSTEM_TURNS,
    Binding,
    ChannelSpec,
    HealthSpec,
    ModelSpec,
    Registry,
    VideoSpec,
    VideoTier,
)
from gw.config.config import (
    AgentSettings,
    Certificate,
    Config,
    KbStore,
    MediaStoreSpec,
    Tasks,
    Timeouts,
)
from gw.config.credentials import authorizer_spec, check_proxies, transport_of
from gw.config.readers import ConfigFaults, Fault, FaultReport, Location, Mark, Unreadable, quoted
from gw.config.relations import (
    asked_tiers,
    caution_endpoints_in_address,
    caution_quoted_keys,
    caution_short_names,
    caution_unpriced,
    caution_unsent_keys,
    caution_unserved_models,
    caution_unused_channels,
    caution_versions_twice,
    caution_wildcard_listeners,
    check_agents,
    check_bindings,
    check_buckets,
    check_certificate,
    check_channel_ids,
    check_fields,
    check_hosted_paths,
    check_keys,
    check_listeners,
    check_model_names,
    check_of_protocols,
    check_prices,
    check_retention,
    check_secrets,
    check_videos,
)
from gw.config.schema import TOP
from gw.config.values import Section, attempt, mapping
from gw.config.yaml_source import parse
from metrics.logs import LEVELS

# Builds the frozen configuration from checked values.

# The tier of models whose id has this suffix, unless they set another.
LITE: VideoTier = "lite"


def config_of(values: Mapping[str, Any], source: Path, environ: Mapping[str, str]) -> Config:
    """Return the configuration of the checked values of the file `source` (an absolute path)."""
    chain, key = values["tls"].values["certificate"], values["tls"].values["key"]
    asked = asked_tiers(values["channels"])
    return Config(
        listen=values["listen"],
        admin_listen=values["admin_listen"],
        admin_hosts=values["admin_hosts"],
        cors_origins=values["cors_origins"],
        console_listen=values["console_listen"],
        console_url=values["console_url"],
        tls=Certificate(source.parent / chain, source.parent / key) if chain else None,
        public_url=values["public_url"],
        data_dir=source.parent / values["data_dir"],
        database_url=values["database_url"],
        redis_url=values["redis_url"],
        secret=values["secret"],
        previous_secret=values["previous_secret"],
        credits_per_usd=values["credits_per_usd"],
        drain_seconds=values["drain_seconds"],
        keep_alive_seconds=values["keep_alive_seconds"],
        keep_alive_before_first_event=values["keep_alive_before_first_event"],
        precharge=values["precharge"],
        worker_silence_seconds=values["worker_silence_seconds"],
        shed_delay_ms=values["shed_delay_ms"],
        max_body_bytes=values["max_body_mb"],
        max_bodies_bytes=values["max_bodies_mb"],
        max_answers_bytes=values["max_answers_mb"],
        translations=frozenset((*values["translations"], *values["translate"])),
        messages_versions=values["messages_versions"],
        retention_months=values["retention_months"],
        ledger_retention_months=values["ledger_retention_months"],
        idempotency_max_bytes=values["idempotency_max_kb"],
        timeouts=Timeouts(**values["timeouts"].values),
        tasks=Tasks(**values["tasks"].values),
        media_store=_media_store(values["media_store"].values),
        kb_store=_kb_store(values["kb_store"].values),
        agents=AgentSettings(**values["agents"].values),
        registry=Registry.of(
            channels=[
                _channel(
                    channel.values,
                    transport_of(channel.values, source.parent, environ),
                    authorizer_spec(channel.values, source.parent),
                )
                for channel in values["channels"]
            ],
            models=[_model(model.values, asked) for model in values["models"]],
        ),
        log_level=values["log_level"] or "",
        source=source,
    )


def _media_store(values: Mapping[str, Any]) -> MediaStoreSpec:
    return MediaStoreSpec(
        kind=values["kind"],
        path=Path(values["path"]),
        bytes_max=values["max_gb"],
        file_bytes_max=values["max_file_mb"],
        keep_days=values["keep_days"],
        concurrency=values["concurrency"],
        bytes_per_second=values["mb_per_second"],
        bucket=_bucket(values),
    )


def _kb_store(values: Mapping[str, Any]) -> KbStore:
    return KbStore(
        kind=values["kind"],
        path=values["path"],
        link_seconds=values["link_seconds"],
        max_source_mb=values["max_source_mb"],
        bucket=_bucket(values),
    )


def _bucket(values: Mapping[str, Any]) -> BucketSpec:
    return BucketSpec(
        endpoint=values["endpoint"],
        region=values["region"],
        bucket=values["bucket"],
        prefix=values["prefix"],
        access_key=values["access_key"],
        secret_key=values["secret_key"],
    )


def _channel(
    values: Mapping[str, Any], transport: Transport | None, authorizer: AuthorizerSpec | None
) -> ChannelSpec:
    health, protocols = values["health"].values, values["protocols"]
    return ChannelSpec(
        id=values["id"],
        base_url=values["base_url"],
        api_key=next(iter(values["api_key"]), ""),
        more_keys=values["api_key"][1:],
        protocols=frozenset(protocols),
        tools=frozenset(values["tools"]),
        max_tokens_param=values["max_tokens_param"],
        has_system_first=values["system_turns"] == SYSTEM_TURNS[1],
        takes_cache_key=values["prompt_cache_key"],
        drops_billing_header=values["drop_billing_header"],
        propagate_trace=values["propagate_trace"],
        max_concurrency=values["max_concurrency"],
        priority=values["priority"],
        wire=_of_protocols(values["wire"], protocols),
        health=HealthSpec(
            failures=health["failures"],
            cooldown_seconds=health["cooldown"],
            first_event_seconds=values["first_event_seconds"],
        ),
        paths=_of_protocols(values["paths"], protocols),
        auth=values["auth"],
        headers=values["headers"].pairs,
        query=_query(values),
        kind=values["kind"] or "",
        transport=transport,
        authorizer=authorizer,
        by_model=values.get("by_model", ()),
        field_secrets=values["headers"].secrets | values["query"].secrets,
    )


def _of_protocols(section: Section, protocols: Sequence[str]) -> dict[str, str]:
    """Return the settings of the channel's protocols; its kind may have more."""
    return {
        name: value
        for name, value in section.values.items()
        if value is not None and name in protocols
    }


def _query(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the query of the channel's kind, overridden by its own parameters."""
    kind = KINDS.get(values["kind"] or "")
    own: tuple[tuple[str, str], ...] = values["query"].pairs
    names = {name.lower() for name, _ in own}
    usual = kind.query if kind is not None else ()
    return (*(pair for pair in usual if pair[0].lower() not in names), *own)


def _model(values: Mapping[str, Any], asked: Mapping[str, str | None]) -> ModelSpec:
    return ModelSpec(
        id=values["id"],
        bindings=tuple(
            Binding(
                bound.values["id"],
                bound.values["as"],
                bound.values["price"],
                bound.values["cost"],
                bound.values["first_event_seconds"],
                asked[bound.values["id"]],
            )
            for bound in values["channels"]
        ),
        display_name=values["display_name"] or values["id"],
        owned_by=values["owned_by"],
        created=values["created"],
        context_size=values["context_size"],
        max_output_tokens=values["max_output_tokens"],
        price=PriceSpec(**values["price"].values),
        multiplier=values["multiplier"],
        capabilities=frozenset(values["capabilities"]),
        callable=values["callable"],
        endpoint_type=values["endpoint_type"],
        aliases=tuple(alias.value for alias in values["aliases"]),
        video=_video(values["id"], values["video"].values),
        refuses_unpriced=values["unpriced"] == "refuse",
    )


def _video(model_id: str, values: Mapping[str, Any]) -> VideoSpec:
    tier = values["tier"] or (LITE if model_id.endswith(f"-{LITE}") else None)
    return VideoSpec(**{**values, "tier": tier})


# Enough for thousands of models; a larger file is the wrong one.
MAX_FILE_BYTES = 4 * 1024 * 1024
LOG_LEVEL_VARIABLE = "GW_LOG_LEVEL"
DEFAULT_LOG_LEVEL = "info"


def load(path: Path, environ: Mapping[str, str]) -> Config:
    """Read the file at `path`. Raises only ConfigFaults, with all faults."""
    return load_text(read_text(path), environ, source=path)


def read_text(path: Path) -> str:
    """Return the content of the file at `path`, unchecked. Raises ConfigFaults.

    For commands and a start, which may wait: it may be a pipe, as `<(…)` makes one.
    """
    return _text_of(path, _waited_for)


def _text_of(path: Path, read: Callable[[Path, int], bytes]) -> str:
    report = FaultReport(str(path))
    content = _read(path, report, read)
    report.raise_if_any()
    text = _decoded(content, report)
    report.raise_if_any()
    return text


def reread_text(path: Path) -> str:
    """Return the text of the regular file at `path`, for a running gateway. Raises ConfigFaults.

    An empty file is a valid configuration at a start. At a reload it is being overwritten in place,
    and would remove every channel and model until the next signal.
    """
    text = _text_of(path, read_regular)
    if not text.strip():
        report = FaultReport(str(path))
        report.top().blame(found="an empty file", allowed="a whole file, put in place by a rename")
        report.raise_if_any()
    return text


def load_text(
    text: str, environ: Mapping[str, str], *, source: Path, is_priced: bool = True
) -> Config:
    """Load a configuration from its text, as if read from the file `source`.

    Without `is_priced` models may lack required prices, as for `gw models`, which adds prices.
    Raises ConfigFaults.
    """
    report = FaultReport(str(source))
    root = parse(text, environ, report)
    if isinstance(root, Unreadable):
        report.raise_if_any()
    tops = attempt(mapping(TOP), root, report.top())
    for top in tops:
        _check(top, is_priced=is_priced)
        _check_log_level(top, environ)
        check_proxies(top.get("channels") or (), environ)
    report.raise_if_any()
    top = tops[0]
    caution_wildcard_listeners(top)
    caution_unused_channels(top.values["models"], top.values["channels"])
    caution_unserved_models(top.values["models"], top.values["channels"])
    caution_unpriced(top.values["models"], top.values["channels"])
    caution_short_names(top.values["channels"])
    caution_versions_twice(top.values["channels"])
    caution_endpoints_in_address(top.values["channels"])
    caution_quoted_keys(top.values["channels"])
    caution_unsent_keys(top.values["channels"])
    config = config_of(top.values, source.absolute(), environ)
    return replace(
        config,
        log_level=config.log_level or environ.get(LOG_LEVEL_VARIABLE) or DEFAULT_LOG_LEVEL,
        cautions=tuple(report.cautions),
    )


def _read(path: Path, report: FaultReport, read: Callable[[Path, int], bytes]) -> bytes:
    try:
        return read(path, MAX_FILE_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        found = (reason or str(error)).lower()
        report.top().blame(found=found, allowed="a YAML file that can be read")
        return b""


def _waited_for(path: Path, bytes_max: int) -> bytes:
    with path.open("rb") as file:
        content = file.read(bytes_max + 1)
    return bounded(content, bytes_max, path)


def _decoded(content: bytes, report: FaultReport) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        mark = Mark(before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        Location(report, "", mark).blame(
            found=f"the byte 0x{content[error.start]:02x}", allowed="text in UTF-8"
        )
        return ""


def _check(top: Section, *, is_priced: bool) -> None:
    channels, models = top.get("channels"), top.get("models") or ()
    check_listeners(top)
    check_secrets(top)
    check_retention(top)
    for section in (top, *(channels or ())):
        check_certificate(section.get("tls" if section is top else "client_certificate"))
    check_buckets(top)
    check_channel_ids(channels or ())
    check_model_names(models)
    check_bindings(models, channels)
    if is_priced:
        check_prices(models)
    check_of_protocols(channels or ())
    check_hosted_paths(channels or ())
    check_fields(channels or ())
    check_keys(channels or ())
    check_videos(models)
    check_agents(top.get("agents"), models)


def _check_log_level(top: Section, environ: Mapping[str, str]) -> None:
    """Check the environment's level, which applies if the file has none."""
    level = environ.get(LOG_LEVEL_VARIABLE)
    if level and top.get("log_level") is None and level not in LEVELS:
        top.location("log_level").blame(
            found=f"{LOG_LEVEL_VARIABLE}={quoted(level)} in the environment",
            allowed=f"one of {', '.join(LEVELS)}",
        )


# The path of the configuration: `--config`, else `$GW_CONFIG`, else `gw.yaml` (contract §1).

DEFAULT_NAME = "gw.yaml"
VARIABLE = "GW_CONFIG"


def name_of_file(path_argument: str | None, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the name of the configuration file, and by what it is named, "" for the default.

    An empty argument or variable counts as absent.
    """
    if path_argument:
        return path_argument, "--config"
    if environ.get(VARIABLE):
        return environ[VARIABLE], f"${VARIABLE}"
    return DEFAULT_NAME, ""


def find(path_argument: str | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """Return the path of the configuration file, absolute when `cwd` is.

    Raises ConfigFaults when the file does not exist; its content is not read.
    """
    named, by = name_of_file(path_argument, environ)
    path = cwd / named
    try:
        path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        found = (reason or str(error)).lower() + (f", named by {by}" if by else "")
        hint = "" if by else f"name one with --config FILE or ${VARIABLE}, or try gw demo"
        fault = Fault(str(path), "", found, "a configuration file", hint)
        raise ConfigFaults([fault]) from None
    return path
