"""The model of a path, which a body may repeat: by its name, or as a resource (`models/NAME`)."""

from __future__ import annotations

import msgspec

from channels.dialects import validation
from channels.dialects.faults import described
from channels.errors import InvalidRequest
from channels.json.json_object import JsonObject

# The prefix of a model named as a resource.
_RESOURCE = "models/"


def check_path_model(model: str) -> None:
    """Raise InvalidRequest for a path that names no model."""
    if not 1 <= len(model) <= validation.MODEL_CHARACTERS_MAX:
        raise InvalidRequest(
            f"model: expected 1 to {validation.MODEL_CHARACTERS_MAX} characters in the path.",
            "model",
        )
    validation.check_model(model)


def renamed_model(members: JsonObject, upstream_model: str) -> dict[str, bytes]:
    """Return the upstream's model for a body that repeats the path's, in the form that it has."""
    named = members.raw.get("model")
    if named is None or bytes(named) == b"null":
        return {}
    prefix = _RESOURCE if bytes(named).startswith(b'"models/') else ""
    return {"model": msgspec.json.encode(prefix + upstream_model)}


def check_same_model(named: object, model: str) -> None:
    """Refuse a body whose model differs from the path's, since an upstream may use either."""
    if named is None or named in (model, _RESOURCE + model):
        return
    raise InvalidRequest(
        f"model: {described(named)} is not the model in the path; leave it out.", "model"
    )
