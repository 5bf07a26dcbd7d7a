"""How bodies are written, whatever stands in the message."""

from __future__ import annotations

import json

import pytest

from channels.families import ErrorShape
from gw.errors import INVALID_REQUEST, GatewayError, dumps, render


def message_of(body: bytes) -> str:
    return str(json.loads(body)["error"]["message"])


@pytest.mark.parametrize(
    "message",
    ["", "plain", 'quotes " and \\', "slash / path", "tab\tnewline\n", "nul\x00", "æøå 漢字 😀"],
)
def test_a_message_comes_back_as_it_was(message: str) -> None:
    assert message_of(render(ErrorShape.CHAT, GatewayError(INVALID_REQUEST, message))) == message


def test_a_lone_surrogate_is_replaced() -> None:
    body = render(ErrorShape.CHAT, GatewayError(INVALID_REQUEST, "model 'x\ud800y' is not known"))
    assert message_of(body) == "model 'x?y' is not known"


def test_slashes_and_letters_are_written_as_they_are() -> None:
    assert dumps({"path": "/v1/é"}) == '{"path":"/v1/é"}'.encode()


def test_a_number_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(OverflowError):
        dumps({"x": float("nan")})


@pytest.mark.parametrize("shape", [ErrorShape.MESSAGES, ErrorShape.GEMINI])
def test_details_are_shown_where_libraries_look_for_them(shape: ErrorShape) -> None:
    details = {"error_code": "some_code", "unsupported": ["tools"]}
    error = GatewayError(INVALID_REQUEST, "No.", details=details)
    assert json.loads(render(shape, error))["error"]["details"] == details
    plain = GatewayError(INVALID_REQUEST, "No.")
    assert "details" not in json.loads(render(shape, plain))["error"]


@pytest.mark.parametrize("shape", [ErrorShape.CHAT, ErrorShape.IMAGES])
def test_other_shapes_have_no_details(shape: ErrorShape) -> None:
    error = GatewayError(INVALID_REQUEST, "No.", details={"error_code": "some_code"})
    assert "details" not in json.loads(render(shape, error))["error"]


def test_only_the_images_shape_has_a_param() -> None:
    error = GatewayError(INVALID_REQUEST, "Too many.")
    assert "param" not in json.loads(render(ErrorShape.CHAT, error))["error"]
    assert json.loads(render(ErrorShape.IMAGES, error))["error"]["param"] is None
