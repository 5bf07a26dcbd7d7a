"""Builds the frozen configuration from checked values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from actors.media_store.specs import BucketSpec
from channels import registry
from channels.authorizers.specs import AuthorizerSpec
from channels.http.transport import Transport
from channels.kinds import KINDS
from channels.prices import PriceSpec
from gw.config import config
from gw.config.cautions import asked_tiers
from gw.config.credentials import authorizer_spec
from gw.config.mappings import Section
from gw.config.transport import transport_of

# The tier of models whose id has this suffix, unless they set another.
LITE: registry.VideoTier = "lite"


def config_of(values: Mapping[str, Any], source: Path, environ: Mapping[str, str]) -> config.Config:
    """Return the configuration of the checked values of the file `source` (an absolute path)."""
    chain, key = values["tls"].values["certificate"], values["tls"].values["key"]
    asked = asked_tiers(values["channels"])
    return config.Config(
        listen=values["listen"],
        admin_listen=values["admin_listen"],
        admin_hosts=values["admin_hosts"],
        cors_origins=values["cors_origins"],
        console_listen=values["console_listen"],
        console_url=values["console_url"],
        tls=config.Certificate(source.parent / chain, source.parent / key) if chain else None,
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
        timeouts=config.Timeouts(**values["timeouts"].values),
        tasks=config.Tasks(**values["tasks"].values),
        media_store=_media_store(values["media_store"].values),
        kb_store=_kb_store(values["kb_store"].values),
        agents=config.AgentsSpec(**values["agents"].values),
        registry=registry.Registry.of(
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


def _media_store(values: Mapping[str, Any]) -> config.MediaStoreSpec:
    return config.MediaStoreSpec(
        kind=values["kind"],
        path=Path(values["path"]),
        bytes_max=values["max_gb"],
        file_bytes_max=values["max_file_mb"],
        keep_days=values["keep_days"],
        concurrency=values["concurrency"],
        bytes_per_second=values["mb_per_second"],
        bucket=_bucket(values),
    )


def _kb_store(values: Mapping[str, Any]) -> config.KbStore:
    return config.KbStore(
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
) -> registry.ChannelSpec:
    health, protocols = values["health"].values, values["protocols"]
    return registry.ChannelSpec(
        id=values["id"],
        base_url=values["base_url"],
        api_key=next(iter(values["api_key"]), ""),
        more_keys=values["api_key"][1:],
        protocols=frozenset(protocols),
        tools=frozenset(values["tools"]),
        max_tokens_param=values["max_tokens_param"],
        has_system_first=values["system_turns"] == registry.SYSTEM_TURNS[1],
        takes_cache_key=values["prompt_cache_key"],
        drops_billing_header=values["drop_billing_header"],
        propagate_trace=values["propagate_trace"],
        max_concurrency=values["max_concurrency"],
        priority=values["priority"],
        wire=_of_protocols(values["wire"], protocols),
        health=registry.HealthSpec(
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


def _model(values: Mapping[str, Any], asked: Mapping[str, str | None]) -> registry.ModelSpec:
    return registry.ModelSpec(
        id=values["id"],
        bindings=tuple(
            registry.Binding(
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


def _video(model_id: str, values: Mapping[str, Any]) -> registry.VideoSpec:
    tier = values["tier"] or (LITE if model_id.endswith(f"-{LITE}") else None)
    return registry.VideoSpec(**{**values, "tier": tier})
