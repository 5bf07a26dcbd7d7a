"""Checks of chains: each is of other models alone, and can be called by its protocols."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from channels.translation.paths import upstream_protocols
from gw.config.faults import Location
from gw.config.mappings import Section
from gw.config.models import OF_CHAIN
from gw.config.nodes import quoted
from gw.config.suggestions import suggestion

# Beyond the three tries of a call models only serve while those before them are set aside.
MODELS_MAX = 8


def check_chains(
    models: Sequence[Section], channels: Sequence[Section], translations: Collection[str]
) -> None:
    """Check the chains of a file, whose models may have any other fault."""
    by_name: dict[str, Section] = {}
    for model in models:
        for name in (model.get("id"), *(one.value for one in model.get("aliases", ()))):
            if name is not None:
                by_name.setdefault(name, model)
    speaking = {one.get("id"): one for one in channels}
    for model in models:
        if "chain" in model.locations:
            _check_keys(model)
            _check_steps(model, by_name)
            _check_protocols(model, by_name, speaking, translations)
        elif model.get("protocols"):
            model.location("protocols").blame(
                found="protocols without a chain", allowed="those of the model's channels"
            )


def _check_keys(model: Section) -> None:
    for name in model.locations:
        if name not in OF_CHAIN:
            model.location(name).blame(
                found=f"{name} beside a chain, whose models have their own",
                allowed=f"the keys {', '.join(OF_CHAIN)}",
            )


def _check_steps(model: Section, by_name: Mapping[str, Section]) -> None:
    steps = model.get("chain")
    if steps is None:
        return
    if not steps or len(steps) > MODELS_MAX:
        model.location("chain").blame(
            found=f"{len(steps)} models" if steps else "an empty chain",
            allowed=f"1 to {MODELS_MAX} models",
        )
    seen: list[Section] = []
    for one in steps:
        step = by_name.get(one.value)
        if step is None:
            fit = [name for name, other in by_name.items() if _fault_of(other, model) is None]
            one.at.blame(
                found=f"the unknown model {quoted(one.value)}",
                allowed="a chat model of this file",
                hint=suggestion(one.value, fit),
            )
        elif (fault := _fault_of(step, model)) is not None:
            one.at.blame(
                found=f"{quoted(one.value)}, {fault}",
                allowed="a chat model with channels, which can be called",
            )
        elif any(step is other for other in seen):
            one.at.blame(
                found=f"the model {quoted(one.value)} again", allowed="each model once in a chain"
            )
        else:
            seen.append(step)


def _fault_of(step: Section, model: Section) -> str | None:
    """Return why a model cannot be in this chain; None if it can, or has a fault of its own."""
    if step is model:
        return "which is the chain itself"
    if "chain" in step.locations:
        return "which is a chain"
    if step.get("endpoint_type") is not None:
        return f"which is a model of {step.get('endpoint_type')}"
    if step.get("callable") is False:
        return "which cannot be called"
    return "which has no channels" if step.get("channels") == () else None


def _check_protocols(
    model: Section,
    by_name: Mapping[str, Section],
    channels: Mapping[str | None, Section],
    translations: Collection[str],
) -> None:
    """Check that each protocol reaches one of the models at least."""
    bound = [
        (channels.get(one.get("id")), one.get("upstream_model") or name.value)
        for name in model.get("chain", ())
        if (step := by_name.get(name.value)) is not None
        for one in step.get("channels", ())
    ]
    if not bound or any(one is None or one.get("protocols") is None for one, _ in bound):
        return  # reported where it is
    spoken: set[str] = set()
    for channel, upstream_model in bound:
        assert channel is not None
        spoken.update(_spoken(channel, upstream_model))
    for one in model.get("protocols", ()):
        reached = {one.value, *upstream_protocols(one.value, frozenset(translations))}
        if spoken.isdisjoint(reached):
            _blame_protocol(one.at, one.value, spoken)


def _blame_protocol(at: Location, protocol: str, spoken: Collection[str]) -> None:
    at.blame(
        found=f"{protocol}, which no model of the chain is reached by",
        allowed="a protocol of their channels, or one that an enabled translation leads from",
        hint=f"they speak {', '.join(sorted(spoken))}",
    )


def _spoken(channel: Section, upstream_model: str) -> Collection[str]:
    """Return the protocols by which a channel serves a model (`ChannelSpec.spoken`)."""
    name, own = upstream_model.lower(), channel.get("by_model", ())
    protocols: Collection[str] = channel.get("protocols")
    return next((them for text, them in own if text in name), protocols)
