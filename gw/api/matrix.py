"""The protocols by which each model is reached (reference 4.4).

Pure: it uses the router with every channel idle and healthy, so its result is that of a call. A
channel that translates by itself lists the protocol as its own; to this gateway and the client that
is passthrough, which is called native outside.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from actors.routing import Candidate, candidates
from channels.data_promise import DataPromise
from channels.families import CHAT_PROTOCOLS, FAMILIES
from channels.registry import BUILTIN_TOOLS, ChannelSpec, ModelSpec, Registry
from channels.translation.paths import SETTINGS, TRANSLATIONS, upstream_protocols
from gw.calls.builtin_tools import is_run_for


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """How one client protocol reaches one model; without passthrough and headers: 503.

    `headers` are the possible values of `X-Protocol-Translation`, of the channels tried first.
    `tools` are the built-in tools available there. `switched_off` are the disabled translations
    that would reach an otherwise unreachable model.
    """

    is_passthrough: bool
    headers: tuple[str, ...]
    tools: tuple[str, ...]
    switched_off: tuple[str, ...] = ()

    @property
    def served(self) -> str:
        """`native` if the first attempts are passthrough, else `translated` or `no_channel`."""
        if self.is_passthrough:
            return "native"
        return "translated" if self.headers else "no_channel"


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """Models with the same cells, which are in the order of CHAT_PROTOCOLS.

    `promises`: what their channels promise for data, each once, an empty one for nothing.
    """

    models: tuple[str, ...]
    cells: tuple[MatrixCell, ...]
    promises: tuple[DataPromise, ...]


@dataclass(frozen=True, slots=True)
class _Idle:
    """An idle channel, as the router sees it."""

    spec: ChannelSpec
    in_use: int = 0
    turn: tuple[float, int] = (0.0, 0)


def compatibility(registry: Registry, translations: Collection[str]) -> list[MatrixRow]:
    """Return the matrix of a configuration, in the file's order, without placeholders."""
    views = {channel_id: _Idle(spec) for channel_id, spec in registry.channels.items()}
    rows: dict[tuple[tuple[MatrixCell, ...], tuple[DataPromise, ...]], list[str]] = {}
    for model in registry.models.values():
        if model.callable:
            cells = tuple(_cell(model, name, views, translations) for name in CHAT_PROTOCOLS)
            rows.setdefault((cells, tuple(registry.promises(model))), []).append(model.id)
    return [MatrixRow(tuple(models), *facts) for facts, models in rows.items()]


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
    """Return the disabled translations that would reach an otherwise unreachable model."""
    return tuple(name for name in SETTINGS if _reached(model, protocol, views, (name,)))


def _tools(
    model: ModelSpec, protocol: str, found: list[Candidate], views: dict[str, _Idle]
) -> tuple[str, ...]:
    """Return the tools of channels used by passthrough, because translations carry none.

    On chat-completions they run over a channel's responses protocol (reference 2.7).
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
