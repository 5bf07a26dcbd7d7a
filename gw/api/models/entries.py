"""One model, in the shape of each protocol."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, NotRequired, TypedDict, TypeVar

from msgspec import Meta

from channels.data_promise import DataPromise
from channels.families import GEMINI, NATIVE_EMBEDDINGS
from channels.registry import ModelSpec, Registry
from gw.instants import format_instant, of_seconds

T = TypeVar("T")

_Id = Annotated[str, Meta(description="The model's id, as requests name it.")]
_Name = Annotated[str, Meta(description="The model's name for people.")]
_ContextSize = Annotated[int, Meta(description="The tokens of its context, if known.")]


class Promise(TypedDict):
    """What a channel promises for the data that it is sent; an absent member is not promised."""

    retention_days: NotRequired[
        Annotated[int, Meta(description="It keeps nothing longer; 0: it keeps nothing.")]
    ]
    region: NotRequired[Annotated[str, Meta(description="It keeps and works on all of it there.")]]


Promises = Annotated[
    list[Promise],
    Meta(
        description="What channels of the model promise for data, each once; absent if none does."
        " `x-gateway-data` demands it."
    ),
]


class ModelEntry(TypedDict):
    """A model in the list."""

    id: _Id
    object: Annotated[Literal["model"], Meta(description="Always `model`.")]
    created: Annotated[int, Meta(description="When the model was made, in Unix seconds.")]
    owned_by: Annotated[str, Meta(description="Who makes the model.")]


class ModelDetail(ModelEntry):
    """One model, for clients of chat-completions and responses."""

    display_name: _Name
    context_length: NotRequired[_ContextSize]
    context_window: NotRequired[_ContextSize]
    max_completion_tokens: NotRequired[
        Annotated[int, Meta(description="The most tokens that it writes, if known.")]
    ]
    data: NotRequired[Promises]


class MessagesModel(TypedDict):
    """One model, for clients of the messages protocol."""

    type: Annotated[Literal["model"], Meta(description="Always `model`.")]
    id: _Id
    display_name: _Name
    created_at: Annotated[
        str,
        Meta(description="When the model was made.", extra_json_schema={"format": "date-time"}),
    ]
    lifecycle: Annotated[
        Literal["active", "retired"],
        Meta(description="`retired`: an entry that cannot be called."),
    ]
    max_input_tokens: Annotated[int | None, Meta(description="The tokens of its context.")]
    max_tokens: Annotated[int | None, Meta(description="The most tokens that it writes.")]
    capabilities: Annotated[None, Meta(description="Always null.")]


class ListedModel(ModelEntry):
    """A model in the list; with a version header it has members of the messages protocol too."""

    type: NotRequired[Annotated[Literal["model"], Meta(description="Always `model`.")]]
    display_name: NotRequired[_Name]
    created_at: NotRequired[Annotated[str, Meta(description="When the model was made.")]]
    lifecycle: NotRequired[
        Annotated[Literal["active", "retired"], Meta(description="Whether it can be called.")]
    ]
    max_input_tokens: NotRequired[
        Annotated[int | None, Meta(description="The tokens of its context.")]
    ]
    max_tokens: NotRequired[
        Annotated[int | None, Meta(description="The most tokens that it writes.")]
    ]
    capabilities: NotRequired[Annotated[None, Meta(description="Always null.")]]


class NativeModel(TypedDict):
    """One model, for clients of native-content."""

    name: Annotated[str, Meta(description="`models/` and the model's id.")]
    version: Annotated[str, Meta(description="Always `001`.")]
    displayName: _Name
    inputTokenLimit: NotRequired[_ContextSize]
    outputTokenLimit: NotRequired[
        Annotated[int, Meta(description="The most tokens that it writes, if known.")]
    ]
    supportedGenerationMethods: Annotated[
        list[str], Meta(description="The methods that it has on this protocol.")
    ]


def first_entry(model: ModelSpec) -> ModelEntry:
    """Return an entry of the plain list."""
    return {
        "id": model.id,
        "object": "model",
        "created": model.created,
        "owned_by": model.owned_by,
    }


def promises_of(registry: Registry, model: ModelSpec) -> list[Promise] | None:
    """Return the promises that the model's channels state; None where there are none."""
    stated = [_promise(one) for one in registry.promises(model) if one]
    return stated or None


def _promise(one: DataPromise) -> Promise:
    promise: Promise = {}
    if one.retention_days is not None:
        promise["retention_days"] = one.retention_days
    if one.region is not None:
        promise["region"] = one.region
    return promise


def first_detail(registry: Registry, model: ModelSpec) -> dict[str, Any]:
    """Return one model, a `ModelDetail`, for clients of chat-completions and responses.

    The sizes have the names read by such clients: `context_length`, `context_window`.
    """
    facts = {
        "context_length": model.context_size,
        "context_window": model.context_size,
        "max_completion_tokens": model.max_output_tokens,
        "data": promises_of(registry, model),
    }
    return {**first_entry(model), "display_name": model.display_name, **_known(facts)}


def messages_entry(model: ModelSpec) -> MessagesModel:
    """Return one model for clients of the messages protocol; a placeholder is shown as retired."""
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.display_name,
        "created_at": format_instant(of_seconds(model.created)),
        "lifecycle": "active" if model.callable else "retired",
        "max_input_tokens": model.context_size,
        "max_tokens": model.max_output_tokens,
        "capabilities": None,
    }


def native_entry(
    registry: Registry, model: ModelSpec, translations: Collection[str]
) -> dict[str, Any]:
    """Return one model, a `NativeModel`, without methods if it cannot be called."""
    methods: tuple[str, ...] = ()
    if registry.reaches(model, {GEMINI.protocol, *translations}):
        methods = ("generateContent", "countTokens")
    elif registry.is_spoken(model, NATIVE_EMBEDDINGS.protocol):
        methods = ("embedContent", "batchEmbedContents")
    sizes = {"inputTokenLimit": model.context_size, "outputTokenLimit": model.max_output_tokens}
    return {
        "name": f"models/{model.id}",
        "version": "001",
        "displayName": model.display_name,
        **_known(sizes),
        "supportedGenerationMethods": list(methods),
    }


def _known(facts: Mapping[str, T | None]) -> dict[str, T]:
    return {name: fact for name, fact in facts.items() if fact is not None}
