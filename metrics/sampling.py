"""Which share of the calls is traced, as OpenTelemetry's own variables say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from metrics.logs import EventLog

# Where nothing is said: an operator who names a collector wants to see calls, not all of them.
DEFAULT_RATIO: Final = 0.01
_RATIO: Final = "traceidratio"
_PARENT_BASED: Final = "parentbased_"
_SHARES: Final[Mapping[str, float | None]] = MappingProxyType(
    {"always_on": 1.0, "always_off": 0.0, _RATIO: None}
)


@dataclass(frozen=True, slots=True)
class Sampling:
    """`ratio` is the share of the calls; where a caller's decision is followed, of the others."""

    ratio: float
    follows_caller: bool = True


def sampling_of(environ: Mapping[str, str]) -> Sampling:
    """Read OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG; what cannot be read is said and left.

    Without a sampler it is the parent-based one by ratio, and the ratio DEFAULT_RATIO; one that is
    named without a ratio takes every call, as OpenTelemetry has it.
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
