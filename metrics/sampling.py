"""The share of sampled calls, by OpenTelemetry's variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from metrics.logs import EventLog

# The default share: an operator with a collector needs some calls, not all.
DEFAULT_RATIO: Final = 0.01
_RATIO: Final = "traceidratio"
_PARENT_BASED: Final = "parentbased_"
_SHARES: Final[Mapping[str, float | None]] = MappingProxyType(
    {"always_on": 1.0, "always_off": 0.0, _RATIO: None}
)


@dataclass(frozen=True, slots=True)
class Sampling:
    """`ratio`: the share of the calls without a client's decision, or of all."""

    ratio: float
    follows_caller: bool = True


def sampling_of(environ: Mapping[str, str]) -> Sampling:
    """Parse OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG; invalid values are logged and ignored.

    Without a sampler it is the parent-based one with DEFAULT_RATIO; a named one without a ratio
    samples every call, as OpenTelemetry specifies.
    """
    named = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    kind = named.removeprefix(_PARENT_BASED)
    if named and kind not in _SHARES:
        allowed = [f"{prefix}{one}" for prefix in (_PARENT_BASED, "") for one in _SHARES]
        _ignored(named, ", ".join(allowed), f"{_PARENT_BASED}{_RATIO}")
        named = ""
    usual = 1.0 if named else DEFAULT_RATIO
    share = _SHARES[kind] if named else None
    return Sampling(
        ratio=_ratio(environ, usual) if share is None else share,
        follows_caller=not named or named.startswith(_PARENT_BASED),
    )


def _ratio(environ: Mapping[str, str], usual: float) -> float:
    text = environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
    if not text:
        return usual
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if 0.0 <= ratio <= 1.0:
        return ratio
    _ignored(text, "0 to 1", usual)
    return usual


def _ignored(found: str, allowed: str, used: object) -> None:
    EventLog("metrics.tracing").warning("sampler_ignored", found=found, allowed=allowed, used=used)
