"""The types of members that several bodies of the admin API have."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from channels.registry import Registry
from gw.admin import values

# The length of a list of models.
MODELS_MAX = 500

Name = Annotated[str, Meta(min_length=1, max_length=values.LABEL_MAX)]
Id = Annotated[str, Meta(pattern=r"^[!-~]{1,100}$")]
Model = Annotated[str, Meta(min_length=1, max_length=values.LABEL_MAX)]
Models = Annotated[list[Model], Meta(max_length=MODELS_MAX)]
Usd = Annotated[str, Meta(pattern=r"^[0-9]{1,10}(\.[0-9]{1,9})?$", description="Decimal USD")]
SignedUsd = Annotated[
    str, Meta(pattern=r"^-?[0-9]{1,10}(\.[0-9]{1,9})?$", description="Decimal USD, negative too")
]
Reason = Annotated[str, Meta(min_length=1, max_length=values.REASON_CHARACTERS_MAX)]
Limit = Annotated[int, Meta(ge=1, le=values.COUNT_MAX)]
Kind = Annotated[str, Meta(pattern="^(console|employee|compute|agent)$")]


def models_of(names: list[str] | None, registry: Registry) -> list[str] | None:
    """Return the canonical ids of a list; None is every model. Raises Refused."""
    return None if names is None else values.canonical_models(names, registry)


BaseId = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]

User = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._@-]{1,64}$")]
