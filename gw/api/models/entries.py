"""One model, in the shape of each protocol."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from channels.families import GEMINI
from channels.registry import ModelSpec, Registry
from gw.instants import format_instant, of_seconds


def first_entry(model: ModelSpec) -> dict[str, Any]:
    """Return an entry of the specification's list."""
    return {
        "id": model.id,
        "object": "model",
        "created": model.created,
        "owned_by": model.owned_by,
    }


def first_detail(model: ModelSpec) -> dict[str, Any]:
    """Return one model for clients of chat-completions and responses.

    The sizes have the names read by such clients: `context_length`, `context_window`.
    """
    sizes = {
        "context_length": model.context_size,
        "context_window": model.context_size,
        "max_completion_tokens": model.max_output_tokens,
    }
    return {**first_entry(model), "display_name": model.display_name, **_known(sizes)}


def messages_entry(model: ModelSpec) -> dict[str, Any]:
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
    """Return one model for clients of native-content, without methods if it cannot be called."""
    methods = ("generateContent", "countTokens")
    served = registry.reaches(model, {GEMINI.protocol, *translations})
    sizes = {"inputTokenLimit": model.context_size, "outputTokenLimit": model.max_output_tokens}
    return {
        "name": f"models/{model.id}",
        "version": "001",
        "displayName": model.display_name,
        **_known(sizes),
        "supportedGenerationMethods": list(methods) if served else [],
    }


def _known(sizes: dict[str, int | None]) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if size is not None}
