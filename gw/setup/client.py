"""A coding agent as a client: what its set-up is made from, and what it is made of.

Pure: the command line prints or merges the files (`gw/cli/setup.py`), the console shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from channels.registry import ModelSpec, Registry
from channels.translation.paths import upstream_protocols
from gw.setup.formats import WRITERS, Format

# The gateway's name in clients' files.
NAME = "gateway"
# Shown if no key is given.
NO_KEY = "sk-platform-…"


@dataclass(frozen=True, slots=True)
class ClientFile:
    """One file of a client: its path below the home directory, and its required members.

    `usual` are members that a file must have, with any value.
    """

    path: str
    format: Format
    values: Mapping[str, Any]
    usual: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The file with only these members."""
        return WRITERS[self.format]({**self.usual, **self.values})


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """The set-up of a client: files, and steps by hand or by commands."""

    files: Sequence[ClientFile] = ()
    steps: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Access:
    """The gateway as seen by a client with a key; the first of its models is the default.

    `url` has no path. `protocols`: by model id, the protocols that reach it.
    """

    url: str
    key: str
    models: Sequence[ModelSpec]
    protocols: Mapping[str, Sequence[str]] = field(default_factory=dict)
    with_mcp: bool = True

    @property
    def small_model(self) -> ModelSpec:
        """The model for small tasks beside the conversation, such as titles and summaries.

        The cheapest that calls tools, or any if none does; of equals the first one.
        """
        able = [one for one in self.models if not one.capabilities or "tools" in one.capabilities]
        return min(able or self.models, key=_price)

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


@dataclass(frozen=True, slots=True)
class CodingAgent:
    """One coding agent: its display name, its protocols, its set-up."""

    title: str
    protocols: Sequence[str]
    setup: Callable[[Access], ClientSetup]


def _price(model: ModelSpec) -> tuple[Decimal, Decimal]:
    """Return what a token of input costs, and one of output, in the same unit for all models."""
    if model.chain:
        return max(map(_price, model.chain))
    price, none = model.price, Decimal(0)
    factor = model.multiplier * (Decimal(1) if price.factor is None else price.factor)
    return (price.input or none) * factor, (price.output or none) * factor


def reached_by(
    registry: Registry, model: ModelSpec, protocol: str, translations: frozenset[str]
) -> bool:
    """Whether a client of this protocol can call a model, natively or translated."""
    return registry.reaches(model, {protocol, *upstream_protocols(protocol, translations)})


def models_for(
    client: CodingAgent,
    models: Sequence[ModelSpec],
    registry: Registry,
    translations: frozenset[str],
) -> tuple[list[ModelSpec], dict[str, list[str]]]:
    """Return the models callable by the client, and their protocols; native ones first."""
    protocols = {
        model.id: [
            *(one for one in client.protocols if registry.reaches(model, {one})),
            *(
                one
                for one in client.protocols
                if not registry.reaches(model, {one})
                and reached_by(registry, model, one, translations)
            ),
        ]
        for model in models
    }
    able = [model for model in models if protocols[model.id]]
    able.sort(key=lambda model: not registry.reaches(model, {client.protocols[0]}))
    return able, protocols
