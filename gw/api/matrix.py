"""Which protocol reaches which model, and how (spec: Protocol compatibility).

Pure: it asks the router itself, with every channel idle and healthy, so its result is what a call
will find. A channel that converts by itself lists the protocol as its own; to this gateway, and to
the client, that is passthrough, which is called native outside.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from actors.routing import Candidate, candidates
from channels.families import CHAT_PROTOCOLS, FAMILIES
from channels.registry import BUILTIN_TOOLS, ChannelSpec, ModelSpec, Registry
from channels.translation.session import SETTINGS, TRANSLATIONS, upstream_protocols
from gw.calls.request import is_run_for


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """How one client protocol reaches one model; no passthrough and no header: not at all, a 503.

    `headers` are the values of `X-Protocol-Translation` that a response may carry, of the channels
    tried first. `tools` are the built-in tools that may be used there. `switched_off` are the
    settings of translations by which a model would be reached that is not.
    """

    is_passthrough: bool
    headers: tuple[str, ...]
    tools: tuple[str, ...]
    switched_off: tuple[str, ...] = ()

    @property
    def served(self) -> str:
        """`native` where the first tries pass bytes through, `translated` or `no_channel`."""
        if self.is_passthrough:
            return "native"
        return "translated" if self.headers else "no_channel"


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """Models that every protocol reaches alike; cells in the order of CHAT_PROTOCOLS."""

    models: tuple[str, ...]
    cells: tuple[MatrixCell, ...]


@dataclass(frozen=True, slots=True)
class _Idle:
    """A channel as the router sees it, with nothing to do."""

    spec: ChannelSpec
    load: int = 0
    leases_granted: int = 0


def compatibility(registry: Registry, translations: Collection[str]) -> list[MatrixRow]:
    """The matrix of a configuration, in the file's order. Placeholders are in no row."""
    views = {channel_id: _Idle(spec) for channel_id, spec in registry.channels.items()}
    rows: dict[tuple[MatrixCell, ...], list[str]] = {}
    for model in registry.models.values():
        if model.callable:
            cells = tuple(_cell(model, name, views, translations) for name in CHAT_PROTOCOLS)
            rows.setdefault(cells, []).append(model.id)
    return [MatrixRow(tuple(models), cells) for cells, models in rows.items()]


def _cell(
    model: ModelSpec, protocol: str, views: dict[str, _Idle], translations: Collection[str]
) -> MatrixCell:
    found = _reached(model, protocol, views, translations)
    headers = dict.fromkeys(
        TRANSLATIONS[protocol, one.protocol].header for one in found if one.protocol != protocol
    )
    return MatrixCell(
        is_passthrough=any(one.protocol == protocol for one in found),
        headers=tuple(headers),
        tools=_tools(model, protocol, found, views),
        switched_off=() if found else _switched_off(model, protocol, views),
    )


def _reached(
    model: ModelSpec, protocol: str, views: dict[str, _Idle], translations: Collection[str]
) -> list[Candidate]:
    spoken = upstream_protocols(protocol, frozenset(translations))
    return candidates(model, protocol, views, translations=spoken)


def _switched_off(model: ModelSpec, protocol: str, views: dict[str, _Idle]) -> tuple[str, ...]:
    """Each translation that would reach a model which no other way does."""
    return tuple(name for name in SETTINGS if _reached(model, protocol, views, (name,)))


def _tools(
    model: ModelSpec, protocol: str, found: list[Candidate], views: dict[str, _Idle]
) -> tuple[str, ...]:
    """Those of the channels spoken to in the client's protocol, as no translation carries any.

    On chat-completions they run over a channel's responses protocol (contract §7).
    """
    run_over = FAMILIES[protocol].tools_over
    spoken = run_over or protocol
    if run_over is not None:
        found = candidates(model, spoken, views)
    offered = {
        tool for one in found if one.protocol == spoken for tool in views[one.channel_id].spec.tools
    }
    return tuple(
        tool
        for tool in BUILTIN_TOOLS
        if tool in offered and (run_over is None or is_run_for(tool, model))
    )
